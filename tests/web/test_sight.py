"""Where a pod is, as a server sees it: in its view of the cluster, or by a bind of its own."""

from datetime import UTC, datetime

import pytest

from bayplan.engine.cycle import Question, filter_nodes
from bayplan.engine.entry import PodRef
from bayplan.engine.journal import Journal
from bayplan.engine.ranking import ToWire
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_pod
from bayplan.web.sight import Sight
from bayplan.wire.scale import to_wire
from tests.web.decided import cluster_of, scored

GONE, HERE = make_pod("db-0", uid="gone"), make_pod("db-0", uid="here")


def sight(journal: Journal, cluster: Snapshot | None, to_wire: ToWire | None = to_wire) -> Sight:
    return Sight(journal, cluster=lambda: cluster, facts=dict, to_wire=to_wire)


def asked(journal: Journal, pod: Pod) -> None:
    cluster = make_cluster(["a", "b"])
    decision = filter_nodes([], Question(pod, cluster.nodes, cluster, datetime(2026, 1, 1, tzinfo=UTC)))
    journal.write("filter", decision, generation=1)


@pytest.mark.parametrize(
    ("cluster", "chosen"),
    [
        pytest.param(make_cluster(["a", "b"], [make_pod("db-0", uid="here", node="b")]), "b", id="placed"),
        pytest.param(make_cluster(["a", "b"], [HERE]), "", id="waiting"),
        pytest.param(None, "", id="no cluster is known"),
    ],
)
def test_the_bind_of_a_pod_that_had_the_name_before_is_not_taken_for_its_own(
    cluster: Snapshot | None, chosen: str
) -> None:
    journal = Journal()
    asked(journal, GONE)
    journal.note("bind", PodRef.of(GONE), generation=1, node="a")
    asked(journal, HERE)

    why = sight(journal, cluster).why("default/db-0", cluster)

    assert why is not None
    assert (why.uid, why.chosen) == ("here", chosen)


def test_where_nobody_watches_pods_a_bind_of_ours_says_where_it_is() -> None:
    journal = Journal()
    asked(journal, HERE)
    journal.note("bind", PodRef.of(HERE), generation=1, node="a")

    why = sight(journal, None).why("default/db-0", None)

    assert why is not None
    assert why.chosen == "a"


@pytest.mark.parametrize("told", [to_wire, None])
def test_where_nobody_is_told_scores_bayplan_places_pods_itself(told: ToWire | None) -> None:
    journal, cluster = Journal(), make_cluster(["a", "b"])
    asked(journal, HERE)

    why = sight(journal, cluster, told).why("default/db-0", cluster)

    assert why is not None
    assert why.schedules == (told is None)


@pytest.mark.parametrize(("told", "never_offered"), [(to_wire, 1), (None, 0)])
def test_a_node_that_came_later_was_not_passed_over_by_a_scheduler(
    told: ToWire | None, never_offered: int
) -> None:
    """kube-scheduler may have known it already; a scheduler looks at every node that it knows."""
    journal, later = Journal(), make_cluster(["a", "b", "new"])
    asked(journal, HERE)

    why = sight(journal, later, told).why("default/db-0", later)

    assert why is not None
    assert why.never_offered == never_offered


@pytest.mark.parametrize(
    ("pods", "gone"),
    [
        pytest.param([make_pod("db-0", uid="here", node="a")], False, id="it is there"),
        pytest.param([make_pod("db-0", uid="another", node="a")], True, id="another one of the name is"),
        pytest.param([], True, id="it is not"),
    ],
)
def test_a_pod_that_is_not_there_any_more_is_told_so(pods: list[Pod], gone: bool) -> None:
    journal, cluster = Journal(), make_cluster(["a", "b"], pods)
    asked(journal, HERE)
    journal.note("bind", PodRef.of(HERE), generation=1, node="a")
    journal.note("evicted", PodRef.of(HERE), generation=1, node="a", others=("default/urgent",))

    why = sight(journal, cluster).why("default/db-0", cluster)

    assert why is not None
    assert (why.chosen, why.gone, why.evicted_for) == ("a", gone, "default/urgent")
    assert why.history[0].text == "must leave a for default/urgent"


def test_a_pod_that_was_only_scored_is_explained_by_its_scores() -> None:
    journal, cluster = Journal(), cluster_of(3)
    journal.write("prioritize", scored(cluster, HERE), generation=1)

    why = sight(journal, cluster).why("default/db-0", cluster)

    assert why is not None
    assert (why.offered, why.passed, len(why.ranking)) == (3, 3, 3)
    assert len({(run.policy, run.hook) for run in why.hooks}) == len(why.hooks)
