"""What a scheduler is made of, before it looks at a cluster; tests/e2e see it at work."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from bayplan.engine.guard import Attempt
from bayplan.runtimes.scheduler.serve import Server
from bayplan.testing import make_cluster, make_pod
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


@pytest.mark.parametrize("stands_by", [True, False])
async def test_a_scheduler_that_stands_by_is_ready_and_has_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stands_by: bool
) -> None:
    why = "another server binds: lease default/one is held by b"
    server = Server(options(tmp_path, {"scheduler": TWO}))
    server.workers.stop()
    view = SimpleNamespace(problem=str)
    live = SimpleNamespace(view=view, why_not_bind=lambda: why, stands_by=stands_by)
    monkeypatch.setattr(server, "live", live, raising=False)

    sight, (_, said) = server.vitals.sight(), server.vitals.health.report("readyz", verbose=True)

    assert f"[!]leader: {why}\n" in said, "what /readyz says stays"
    assert sight.problems().get("leader", "") == ("" if stands_by else why)
    assert sight.stands_by() == (why if stands_by else "")


async def test_each_profile_says_for_itself_whether_pods_are_evicted(tmp_path: Path) -> None:
    off = {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}
    profiles = [{"schedulerName": "one", "plugins": off}, {"schedulerName": "two"}]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "both.yaml").write_text(yaml.safe_dump({**head, "profiles": profiles}))
    entries = [{**entry, "kubeSchedulerConfig": "both.yaml"} for entry in TWO["profiles"]]
    server = Server(options(tmp_path, {"scheduler": {"profiles": entries}}))
    server.workers.stop()
    cluster = make_cluster(["a"], [make_pod("low", cpu=4, priority=1, node="a")])
    urgent = make_pod("urgent", cpu=4, priority=10)

    judges = server.generation.judges
    evicts = {name: judge.judge(urgent, cluster, Attempt()).eviction for name, judge in judges.items()}

    assert evicts["one"] is None
    assert evicts["two"] is not None
