"""Load: limits with a memory, headroom, pods that nobody has measured yet, and nodes without a value."""

from typing import Any

import msgspec
import pytest

from bayplan import PolicyError
from bayplan.policies.load import Load, LoadArgs
from bayplan.snapshot.bynode import by_field
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Reading, Readings, Source
from bayplan.testing import make_cluster, make_node, make_pod, run_policy
from bayplan.testing.run import Result

USAGE = {"busy": {"cpu": 0.9}, "idle": {"cpu": 0.1}}
NODES = [make_node(name, cpu=10, memory="10Gi") for name in ("busy", "idle", "silent")]


def run(cluster: Snapshot, pod: Any = None, **column: Any) -> Result:
    columns = [{"source": "usage.cpu", **column}]
    return run_policy(Load, pod or make_pod(), cluster, args={"columns": columns})


def test_above_the_limit_a_node_is_refused_with_the_number() -> None:
    result = run(make_cluster(NODES, sources={"usage": USAGE}), refuseAbove=0.8)

    assert result.refused == {"busy": "usage.cpu is above 0.8"}
    assert result.details["busy"] == "0.9"


def test_the_limit_itself_is_not_above_it() -> None:
    result = run(make_cluster(NODES, sources={"usage": USAGE}), refuseAbove=0.9)

    assert result.refused == {}


def test_who_waits_for_a_load_says_so() -> None:
    result = run(make_cluster(NODES, sources={"usage": USAGE}), refuseAbove=0.8)

    (topics,) = [reason.helped_by for _, reason, _ in result.filtered.groups()]
    assert topics == {"source:usage"}


def test_a_node_that_was_refused_stays_so_until_it_is_below_the_lower_limit() -> None:
    hot = Source("usage.cpu").latched(above=0.8, below=0.6)
    values = by_field({"busy": {"cpu": 0.7}, "idle": {"cpu": 0.7}})
    reading = Reading(values, latched={hot: frozenset({"busy"})})
    cluster = make_cluster(["busy", "idle"]).with_readings(Readings({"usage": reading}))

    result = run(cluster, refuseAbove=0.8, until=0.6)

    assert result.refused == {"busy": "usage.cpu was above 0.8 and is not below 0.6 yet"}


@pytest.mark.parametrize("on_missing", ["pass", "neutral", "last"])
def test_a_source_that_fell_silent_holds_nobody(on_missing: str) -> None:
    """The switch remembers that the node was hot; whether it still is, nobody knows."""
    hot = Source("usage.cpu").latched(above=0.8, below=0.8)
    silent = Reading({}, latched={hot: frozenset({"busy"})})
    cluster = make_cluster(["busy"]).with_readings(Readings({"usage": silent}))

    assert run(cluster, refuseAbove=0.8, onMissing=on_missing).refused == {}


@pytest.mark.parametrize(
    ("on_missing", "refused", "score"),
    [
        pytest.param("pass", {}, 100, id="pass: as good as an idle one"),
        pytest.param("neutral", {}, 50, id="neutral: neither good nor bad"),
        pytest.param("last", {}, 0, id="last: not refused, as good as a full one"),
        pytest.param("fail", {"silent": "usage.cpu is not known"}, None, id="fail: refused"),
    ],
)
def test_a_node_without_a_value(on_missing: str, refused: dict[str, str], score: float | None) -> None:
    result = run(make_cluster(NODES, sources={"usage": USAGE}), onMissing=on_missing)

    assert result.refused == refused
    assert result.scores.get("silent") == score


def test_the_score_is_the_headroom() -> None:
    result = run(make_cluster(NODES, sources={"usage": USAGE}))

    assert result.scores == pytest.approx({"busy": 10, "idle": 90, "silent": 50})


def test_columns_count_by_their_weight_and_one_without_a_value_does_not() -> None:
    usage = {"busy": {"cpu": 0.9, "memory": 0.5}, "idle": {"cpu": 0.1}}
    columns = [{"source": "usage.cpu", "weight": 3}, {"source": "usage.memory"}]

    result = run_policy(
        Load, make_pod(), make_cluster(NODES[:2], sources={"usage": usage}), args={"columns": columns}
    )

    # (3 x 10 + 1 x 50) / 4, and of the other one CPU alone.
    assert result.scores == pytest.approx({"busy": 20, "idle": 90})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        pytest.param({}, 0.25, id="fraction"),
        pytest.param({"unit": "percent"}, 25, id="percent"),
        pytest.param({"unit": "absolute", "resource": "cpu"}, 2.5, id="cores"),
        pytest.param({"unit": "absolute", "resource": "memory"}, 2.5 * 2**30, id="bytes"),
    ],
)
def test_units(column: dict[str, Any], value: float) -> None:
    cluster = make_cluster(NODES[:1], sources={"usage": {"busy": {"cpu": value}}})

    assert run(cluster, **column).scores == pytest.approx({"busy": 75})


@pytest.mark.parametrize(
    ("column", "value", "limit"),
    [
        pytest.param({}, 0.5, 0.8, id="fraction"),
        pytest.param({"unit": "percent"}, 50, 80, id="percent"),
        pytest.param({"unit": "absolute"}, 5, 8, id="cores"),
    ],
)
def test_pods_that_came_after_the_reading_count_with_the_pod_itself(
    column: dict[str, Any], value: float, limit: float
) -> None:
    cluster = make_cluster(NODES[:1], sources={"usage": {"busy": {"cpu": value}}})
    settings = {"resource": "cpu", "refuseAbove": limit, **column}
    pod = make_pod(cpu=2)
    assert run(cluster, pod, **settings).scores == pytest.approx({"busy": 30})

    later = cluster.placed(make_pod("new", cpu="1500m"), "busy")
    result = run(later, pod, **settings)

    assert result.refused == {"busy": f"usage.cpu would be above {limit:g} with this pod"}
    (topics,) = [reason.helped_by for _, reason, _ in result.filtered.groups()]
    assert topics == {"source:usage", "pods"}
    assert run(later, pod, **settings, countPlaced=False).refused == {}


def test_what_was_there_when_it_was_measured_is_not_counted_twice() -> None:
    there = make_pod("there", node="busy", cpu=5)
    cluster = make_cluster(NODES[:1], [there], sources={"usage": {"busy": {"cpu": 0.5}}})

    assert run(cluster, make_pod(cpu=1), resource="cpu").scores == pytest.approx({"busy": 40})


def test_nothing_is_taken_off_for_pods_that_are_gone() -> None:
    there = make_pod("there", node="busy", cpu=5)
    cluster = make_cluster(NODES[:1], [there], sources={"usage": {"busy": {"cpu": 0.5}}})

    gone = cluster.without([there.uid])

    assert run(gone, make_pod(cpu=1), resource="cpu").scores == pytest.approx({"busy": 40})


def test_ten_pods_in_a_row_do_not_all_go_to_the_idle_node() -> None:
    usage = {"half": {"cpu": 0.5}, "idle": {"cpu": 0.1}}
    cluster = make_cluster([make_node(name, cpu=10) for name in usage], sources={"usage": usage})
    chosen = []
    for number in range(10):
        pod = make_pod(f"p{number}", cpu=1)
        best = run(cluster, pod, resource="cpu").best
        assert best is not None
        chosen.append(best)
        cluster = cluster.placed(pod, best)

    # Four bring the idle one to the other's half, and from there they take turns.
    assert chosen[:4] == ["idle"] * 4
    assert (chosen.count("idle"), chosen.count("half")) == (7, 3)


def test_a_node_without_the_resource_has_no_share_of_it() -> None:
    cluster = make_cluster([make_node("virtual", cpu=0)], sources={"usage": {"virtual": {"cpu": 1.0}}})

    assert run(cluster, unit="absolute", resource="cpu").scores == {"virtual": 50}
    assert run(cluster, resource="cpu").scores == {"virtual": 0}


def test_a_limit_alone_gives_no_score() -> None:
    result = run(make_cluster(NODES[:2], sources={"usage": USAGE}), refuseAbove=0.95, weight=0)

    assert result.scores == {"busy": 50, "idle": 50}


@pytest.mark.parametrize(
    ("column", "error"),
    [
        pytest.param({"until": 0.5}, "`until` without `refuseAbove`", id="until what"),
        pytest.param({"refuseAbove": 0.5, "until": 0.6}, "higher than", id="upside down"),
        pytest.param({"unit": "absolute"}, "`resource` is missing", id="an amount of what"),
        pytest.param({"countPlaced": True}, "`resource` is missing", id="which requests"),
        pytest.param({"resource": "cpus"}, "did you mean 'cpu'", id="a typo"),
        pytest.param({"weight": 0}, "says nothing", id="nothing said"),
        pytest.param(
            {"refuseAbove": 85}, "did you mean 0.85, or `unit: percent`", id="percent for a fraction"
        ),
        pytest.param(
            {"refuseAbove": 1.5, "resource": "cpu"},
            "`refuseAbove: 1.5` is more than all",
            id="more CPU than all",
        ),
        pytest.param(
            {"refuseAbove": 0.85, "unit": "percent"},
            "less than one percent; did you mean 85, or `unit: fraction`",
            id="a fraction for percent",
        ),
        pytest.param(
            {"refuseAbove": 85, "until": 0.7, "unit": "percent"}, "`until: 0.7` is less", id="one of each"
        ),
    ],
)
def test_settings_that_make_no_sense(column: dict[str, Any], error: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=error):
        msgspec.convert({"columns": [{"source": "usage.cpu", **column}]}, LoadArgs)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param({"refuseAbove": 1, "resource": "cpu"}, id="all of it"),
        pytest.param({"refuseAbove": 1.5}, id="a load average by core"),
        pytest.param({"refuseAbove": 85, "until": 0, "unit": "percent"}, id="until nothing is used"),
        pytest.param({"refuseAbove": 85, "unit": "absolute", "resource": "cpu"}, id="cores"),
        pytest.param({"refuseAbove": 0.5, "unit": "absolute", "resource": "cpu"}, id="half a core"),
    ],
)
def test_limits_that_make_sense_in_their_unit(column: dict[str, Any]) -> None:
    assert msgspec.convert({"columns": [{"source": "usage.cpu", **column}]}, LoadArgs)


def test_a_column_is_there_once() -> None:
    with pytest.raises(msgspec.ValidationError, match="'p95' is there twice"):
        msgspec.convert({"columns": [{"source": "p95"}, {"source": "p95"}]}, LoadArgs)


def test_a_source_that_there_is_not_is_an_error() -> None:
    with pytest.raises(PolicyError, match="no source 'usage'"):
        run(make_cluster(NODES, sources={"usages": USAGE}))
