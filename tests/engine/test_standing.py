"""What stands about every node: it holds nothing of the cluster, and is counted where it is kept."""

import gc
from dataclasses import replace
from types import FunctionType, ModuleType

import numpy as np
import pytest

import bayplan
from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.scope import PolicyScope
from bayplan.engine.entry import PodRef
from bayplan.engine.guard import Attempt
from bayplan.engine.journal import Journal
from bayplan.engine.standing import Standing, learn, may_stand
from bayplan.engine.standing_entry import NO_CODES, NO_ROWS, StandingEntry
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.table import NodeTable
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan.testing.run import ready

DISK = bayplan.Label("disk")
NO_SSD = bayplan.Reason("no SSD", detail="it has {disk}")


@bayplan.filter(reads="node")
def on_ssd(nodes: bayplan.NodeTable) -> bayplan.Verdict:
    return NO_SSD.where(nodes[DISK] != "ssd", disk=nodes[DISK])


@bayplan.score(reads="node")
def by_cpu(nodes: bayplan.NodeTable) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    cpu: np.ndarray[tuple[int], np.dtype[np.float64]] = nodes["cpu.allocatable"].astype(np.float64)
    return cpu


@bayplan.score(reads="node")
def with_cores(nodes: bayplan.NodeTable) -> bayplan.Score:
    cores = nodes["cpu.allocatable"] // 1000
    return bayplan.Score(cores, detail="{cores} of {most} cores", cores=cores, most=6)


NAMES = [f"n{number}" for number in range(6)]


def reachable(start: object) -> list[object]:
    """What it keeps in memory, apart from code."""
    found: dict[int, object] = {}
    waiting = [start]
    while waiting:
        one = waiting.pop()
        if id(one) not in found and not isinstance(one, type | ModuleType | FunctionType):
            found[id(one)] = one
            waiting += gc.get_referents(one)
    return list(found.values())


def policies() -> list[Policy]:
    return [*ready(on_ssd, None), *ready(by_cpu, None)]


def cluster(count: int = 6) -> Snapshot:
    nodes = [make_node(f"n{k}", labels={"disk": ("ssd", "hdd")[k % 2]}, cpu=k + 1) for k in range(count)]
    return make_cluster(nodes, [make_pod(f"p{k}", node=f"n{k}") for k in range(count)])


def stand(there: Snapshot, pod: Pod | None = None) -> Standing:
    found = learn(policies(), pod or make_pod("web"), there, Attempt())
    assert found is not None
    return found


def entry(standing: Standing, number: int, rows: list[int], pod: Pod | None = None) -> StandingEntry:
    return StandingEntry(
        number=number,
        at=0.0,
        verb="prioritize",
        generation=1,
        pod=PodRef.of(pod or make_pod(f"web-{number}")),
        names=NAMES,
        rows=NO_ROWS,
        voices=(),
        refused_by=NO_CODES,
        standing=standing,
        asked=rows,
    )


def test_scores_are_stretched_over_the_nodes_that_are_asked_about() -> None:
    standing = stand(cluster())

    assert standing.totals is None
    for rows, expected in (([0, 1, 2], [0, 50, 100]), ([2, 5], [0, 100]), ([4], [50])):
        total = standing.total(np.array(rows, dtype=np.intp))
        assert total is not None
        assert total.tolist() == expected
        assert entry(standing, 1, rows).total.tolist() == expected  # type: ignore[union-attr]


def test_the_numbers_behind_a_score_are_those_of_the_nodes_that_are_asked_about() -> None:
    standing = learn(ready(with_cores, None), make_pod("web"), cluster(), Attempt())
    assert standing is not None

    (voice,) = entry(standing, 1, [4, 2]).voices

    assert [voice.behind(place) for place in range(2)] == ["5 of 6 cores", "3 of 6 cores"]


def test_it_keeps_neither_the_cluster_nor_the_pods_on_it() -> None:
    standing = stand(cluster())
    kept = reachable(standing)

    assert standing.verdicts.tolist() == [0, 1, 0, 1, 0, 1]
    assert any(one is standing.verdicts for one in kept)
    assert [one for one in kept if isinstance(one, Snapshot | NodeTable | Pod | Policy | Hook)] == []


@pytest.mark.parametrize("long", ["labels", "uid"])
def test_the_journal_stays_within_its_bytes_whatever_texts_the_pods_have(long: str) -> None:
    standing, journal = stand(cluster()), Journal(max_bytes=200_000)
    for number in range(50):
        text = f"{number}-" + "x" * 20_000
        pod = make_pod("web", labels={"long": text}) if long == "labels" else make_pod("web", uid=text)
        journal.keep(entry(standing, number, [0, 1], pod))

    assert len(journal) < 10
    assert journal.size_bytes <= 200_000


def test_the_journal_counts_what_entries_share_once_and_gives_it_back() -> None:
    standing, other = stand(cluster()), stand(cluster())
    journal = Journal()
    sizes = []
    for number, of in enumerate([standing, standing, other], start=1):
        journal.keep(entry(of, number, [0, 1]))
        sizes.append(journal.size_bytes)
    alone = entry(standing, 1, [0, 1]).nbytes
    names = sizes[0] - alone - standing.nbytes

    assert names > 0
    assert sizes[1] - sizes[0] == alone
    assert sizes[2] - sizes[1] >= alone + other.nbytes

    journal.max_bytes = alone + other.nbytes + 2 * names
    for number in range(4, 40):
        journal.keep(entry(other, number, [0, 1]))
    assert all(kept.standing is other for kept in journal.entries() if isinstance(kept, StandingEntry))
    assert journal.size_bytes <= journal.max_bytes


@pytest.mark.parametrize("scoped", [False, True])
def test_one_policy_that_looks_around_is_enough_where_it_is_for_every_pod(*, scoped: bool) -> None:
    @bayplan.filter
    def around(nodes: bayplan.NodeTable) -> None:
        return None

    made = ready(around, None)
    if scoped:
        made = [replace(policy, scope=PolicyScope(namespaces=("other",))) for policy in made]

    assert may_stand([*policies(), *made]) is scoped
    assert (learn([*policies(), *made], make_pod("web"), cluster(), Attempt()) is not None) is scoped
    assert not may_stand([])
