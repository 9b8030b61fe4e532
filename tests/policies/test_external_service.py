"""ExternalService: the service's own texts, its numbers, and nodes that it says nothing of."""

from typing import Any

import msgspec
import pytest

from bayplan.policies.external_service import TEXTS_LIMIT, ExternalService, ExternalServiceArgs
from bayplan.testing import make_cluster, make_pod, run_policy
from bayplan.testing.run import Result


def run(said: dict[str, Any], nodes: list[str] | None = None, **args: Any) -> Result:
    cluster = make_cluster(nodes or list(said), sources={"licences": said})
    return run_policy(ExternalService, make_pod(), cluster, args={"source": "licences", **args})


def test_a_node_is_refused_with_the_text_of_the_service() -> None:
    result = run({"a": {"refuse": "no licence left"}, "b": {"score": 7}})

    assert result.refused == {"a": "no licence left"}
    assert result.passed == ["b"]


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        pytest.param(True, "refused by licences", id="true: without a text"),
        pytest.param("  ", "refused by licences", id="spaces: without a text"),
        pytest.param(False, None, id="false: not refused"),
        pytest.param("", None, id="no text: not refused"),
        pytest.param(None, None, id="null: not refused"),
        pytest.param("x" * 300, "x" * 199 + "…", id="a long text is cut"),
    ],
)
def test_what_a_service_may_say(said: Any, refused: str | None) -> None:
    assert run({"a": {"refuse": said}}).refused.get("a") == refused


def test_evicting_somebody_never_helps() -> None:
    result = run({"a": {"refuse": "no licence left"}, "b": {"refuse": True}})

    assert [reason.preemptible for _, reason, _ in result.filtered.groups()] == [False, False]


def test_only_the_most_frequent_texts_are_told() -> None:
    said = {f"n{number}": {"refuse": f"text {number}"} for number in range(100)}
    said |= {f"m{number}": {"refuse": "the frequent one"} for number in range(2)}

    result = run(said)

    texts = set(result.refused.values())
    assert len(texts) == TEXTS_LIMIT + 1
    assert {"the frequent one", "refused by licences"} <= texts
    assert len(result.refused) == 102


@pytest.mark.parametrize(
    ("scores", "settings", "found"),
    [
        pytest.param((2, 4, 3), {}, (0, 100, 50), id="stretched"),
        pytest.param((2, 4, 30), {"scoreRange": [0, 10]}, (20, 40, 100), id="in a range, and clipped"),
        pytest.param((4, 4, 4), {}, (50, 50, 50), id="all the same"),
        pytest.param((2, None, 4), {}, (0, 50, 100), id="one without"),
        pytest.param((2, 4, 3), {"score": False}, (50, 50, 50), id="not counted"),
        pytest.param((-1.7e308, 1.7e308, 0), {}, (0, 100, 50), id="far apart"),
    ],
)
def test_scores(scores: tuple[float, ...], settings: dict[str, Any], found: tuple[float, ...]) -> None:
    said = {f"n{number}": {"score": score} for number, score in enumerate(scores)}

    assert tuple(run(said, **settings).scores.values()) == pytest.approx(found)


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        pytest.param({}, {}, id="pass"),
        pytest.param({"onMissing": "refuse"}, {"silent": "licences says nothing of the node"}, id="refuse"),
    ],
)
def test_nodes_that_the_service_says_nothing_of(settings: dict[str, Any], refused: dict[str, str]) -> None:
    said = {"scored": {"score": 1}, "allowed": {"refuse": False}}

    assert run(said, nodes=["scored", "allowed", "silent"], **settings).refused == refused


def test_a_choice_of_nodes_has_its_own_texts() -> None:
    """The column of text knows the texts of all nodes, also of those that were not asked about."""
    cluster = make_cluster(["a", "b"], sources={"licences": {"a": {"refuse": "one"}, "b": {"refuse": "two"}}})
    policy = ExternalService(ExternalServiceArgs(source="licences"))

    reason = policy.allowed(cluster.nodes.take(cluster.find(["b"]))).reason(0)

    assert reason is not None
    assert reason.text == "two"


@pytest.mark.parametrize(
    ("args", "error"),
    [
        pytest.param({"scoreRange": [10, 0]}, "want the worst score first", id="a range upside down"),
        pytest.param({"source": "licences.score"}, "matching regex", id="a column instead of a source"),
    ],
)
def test_settings_that_make_no_sense(args: dict[str, Any], error: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=error):
        msgspec.convert({"source": "licences", **args}, ExternalServiceArgs)
