"""What a scheduler is made of, before it looks at a cluster; tests/e2e see it at work."""

from pathlib import Path

from bayplan.runtimes.scheduler.serve import Server
from tests.runtimes.scheduler.test_options import TWO, options


async def test_plugins_of_one_name_in_two_profiles_are_each_at_work_and_named_once(tmp_path: Path) -> None:
    """Their arguments may differ, and so what they read from sources and hand out."""
    wanted = options(tmp_path, {"scheduler": TWO, "policies": [{"use": "MostAvailableCPU"}]})
    one, two = wanted.profiles.values()
    assert one[0].name == two[0].name
    assert one[0] is not two[0]

    server = Server(wanted)
    server.workers.stop()

    at_work = {id(policy) for policy in server.policies}
    assert at_work == {id(policy) for policy in (*one, *two)}
    assert len(server.policies) == len(at_work) == len(one) + len(two) - 1, "the user's own is shared"
    assert server.vitals.sight().policies() == [policy.name for policy in one]
