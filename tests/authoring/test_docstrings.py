"""What ``help(bayplan.NAME)`` shows: every public name says what it is, and its examples work."""

import inspect
import textwrap
from typing import Any

import pytest

import bayplan
from bayplan import Args, Reason

EXAMPLES = {name: doc for name in bayplan.__all__ if "::\n" in (doc := getattr(bayplan, name).__doc__)}


class HeadroomArgs(Args):
    """Named in an example."""

    headroom_milli: int = 0


@pytest.mark.parametrize("name", bayplan.__all__)
def test_every_public_name_has_a_docstring_of_its_own(name: str) -> None:
    doc = inspect.getdoc(getattr(bayplan, name))

    assert doc
    assert doc.partition("\n")[0].endswith((".", ":"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_in_a_docstring_is_one_that_works(name: str) -> None:
    _, _, rest = inspect.cleandoc(EXAMPLES[name]).partition("::\n")
    lines = rest.lstrip("\n").splitlines()
    end = next((n for n, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
    code = textwrap.dedent("\n".join(lines[:end]))
    known: dict[str, Any] = {"bayplan": bayplan, "Reason": Reason, "HeadroomArgs": HeadroomArgs}
    there = dict(known)

    exec(compile(code, f"the docstring of {name}", "exec"), there)

    there.pop("__builtins__")
    assert there != known, "an example makes something"
