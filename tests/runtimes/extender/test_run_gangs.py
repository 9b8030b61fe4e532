"""What an extender says of a policy that names gangs: it is not asked about them."""

from types import SimpleNamespace
from typing import Any

import bayplan
from bayplan.authoring.load import Definition
from bayplan.runtimes.extender.run import _cautions


@bayplan.gang
def ranks(pod):  # type: ignore[no-untyped-def]
    return bayplan.Gang("a", size=2)


def test_a_hook_that_names_gangs_is_of_the_scheduler_alone() -> None:
    policy = Definition("own", (("ranks", ranks),), None, ()).make()
    options: Any = SimpleNamespace(
        policies=(policy,), snapshot=object(), connection=None, tls=object(), listen=("127.0.0.1", 8888)
    )

    (caution,) = _cautions(options)

    assert caution.startswith("test_run_gangs.py:")
    assert "`gang` is of `bayplan schedule` alone" in caution
