"""Where a pod is, as a server sees it: in its view of the cluster, or by a bind of its own."""

from datetime import UTC, datetime

import pytest

from bayplan.engine.cycle import Question, filter_nodes
from bayplan.engine.entry import PodRef
from bayplan.engine.journal import Journal
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_pod
from bayplan.web.sight import Sight
from bayplan.wire.scale import to_wire

GONE, HERE = make_pod("db-0", uid="gone"), make_pod("db-0", uid="here")


def sight(journal: Journal, cluster: Snapshot | None) -> Sight:
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
