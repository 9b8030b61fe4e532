"""A gang is named by a hook, or by labels and annotations; what is wrong with it is told at once."""

from typing import Any

import pytest

import bayplan
from bayplan import Gang, Label
from bayplan.authoring.gang import gang_by_labels, may_be_in_gang
from bayplan.authoring.hooks import HOOK
from bayplan.testing import make_pod

NAMED = {"bayplan.dev/gang": "job", "bayplan.dev/gang-size": "8"}


def test_a_gang_knows_its_domain_by_label_key_or_short_name() -> None:
    rack = Label("rack")

    assert Gang("a", size=2, within=rack).domain == rack
    assert Gang("a", size=2, within="rack").domain == rack
    assert Gang("a", size=2, within="zone").domain == Label("topology.kubernetes.io/zone")
    assert Gang("a", size=2).domain is None
    assert Gang("a", size=2, within="rack") == Gang("a", size=2, within=rack)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param({"name": ""}, "needs a name", id="no name"),
        pytest.param({"name": 7}, "needs a name", id="a number for a name"),
        pytest.param({"name": "a\ud800"}, "half a surrogate pair", id="a name that JSON cannot hold"),
        pytest.param({"size": 0}, "size is how many pods it has, 1 or more; got 0", id="nobody"),
        pytest.param({"size": True}, "size is how many", id="true is no number"),
        pytest.param({"size": 2.5}, "size is how many", id="half a pod"),
        pytest.param({"timeout_seconds": 0}, "timeout_seconds must be a number, 1 or more", id="no time"),
        pytest.param({"timeout_seconds": 0.999}, "1 or more; got 0.999", id="less than a second"),
        pytest.param({"timeout_seconds": float("inf")}, "timeout_seconds", id="for ever"),
        pytest.param({"timeout_seconds": "60s"}, "timeout_seconds", id="a text for a number"),
        pytest.param({"within": Label("price", float)}, "a label of text", id="a domain of numbers"),
        pytest.param({"within": ""}, "a label of text", id="an empty label"),
        pytest.param({"within": 3}, "a label of text", id="a number for a label"),
    ],
)
def test_a_gang_that_cannot_be_is_refused_when_it_is_made(settings: dict[str, Any], problem: str) -> None:
    given = {"name": "job", "size": 2, **settings}

    with pytest.raises(ValueError, match=problem):
        Gang(given.pop("name"), **given)


def test_a_gang_hook_takes_the_pod_and_its_arguments_and_nothing_else() -> None:
    @bayplan.gang
    def ranks(pod: bayplan.Pod) -> Gang:
        return Gang(pod.labels["job"], size=8)

    assert getattr(ranks, HOOK).kind == "gang"
    assert ranks(make_pod(labels={"job": "j"})) == Gang("j", size=8)
    with pytest.raises(bayplan.PolicyError, match="unknown parameter 'node'"):

        @bayplan.gang
        def by_node(pod: bayplan.Pod, node: bayplan.Node) -> None: ...


def test_labels_and_annotations_say_the_same() -> None:
    whole = {**NAMED, "bayplan.dev/gang-timeout": "90s"}
    within = {"bayplan.dev/gang-within": "example.com/rack"}
    meant = Gang("job", size=8, within="example.com/rack", timeout_seconds=90)

    assert gang_by_labels(make_pod(labels=whole, annotations=within)) == meant
    assert gang_by_labels(make_pod(annotations={**whole, **within})) == meant
    assert gang_by_labels(make_pod(labels=NAMED)) == Gang("job", size=8)


def test_a_label_counts_before_an_annotation() -> None:
    pod = make_pod(labels=NAMED, annotations={"bayplan.dev/gang-size": "3"})

    found = gang_by_labels(pod)

    assert found is not None
    assert found.size == 8


def test_a_pod_that_says_nothing_is_on_its_own() -> None:
    pod = make_pod(labels={"app": "web"})

    assert not may_be_in_gang(pod)
    assert gang_by_labels(pod) is None
    assert may_be_in_gang(make_pod(annotations={"bayplan.dev/gang-sise": "3"}))


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        pytest.param({"bayplan.dev/gang": "job"}, "without bayplan.dev/gang-size", id="no size"),
        pytest.param({"bayplan.dev/gang-size": "8"}, "without bayplan.dev/gang: say the name", id="no name"),
        pytest.param({**NAMED, "bayplan.dev/gang-size": "many"}, "1 or more; got 'many'", id="words"),
        pytest.param({**NAMED, "bayplan.dev/gang-size": "0"}, "1 or more; got '0'", id="nobody"),
        pytest.param({**NAMED, "bayplan.dev/gang-size": "-1"}, "1 or more; got '-1'", id="less than nobody"),
        pytest.param(
            {**NAMED, "bayplan.dev/gang-size": "9" * 5000}, "1 or more", id="more digits than Python reads"
        ),
        pytest.param({**NAMED, "bayplan.dev/gang-timeout": "60"}, "'60' is not a duration", id="no unit"),
        pytest.param(
            {**NAMED, "bayplan.dev/gang-timeout": "1ms"},
            "bayplan.dev/gang-timeout: want 1s or more; got '1ms'",
            id="a timeout that is work for the scheduler and of no use",
        ),
        pytest.param(
            {**NAMED, "bayplan.dev/gang-sise": "8"}, "did you mean 'bayplan.dev/gang-size'", id="a typo"
        ),
    ],
)
def test_what_labels_cannot_mean_is_told(labels: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        gang_by_labels(make_pod(annotations=labels))
