"""Two configurations before one recording: what is different, and the page that shows it."""

import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bayplan.config.flags import Flags, load_all
from bayplan.recording.lines import RecordingError
from bayplan.runtimes.simulator.compare import Comparison, Placement, PodComparison, compare, measure
from bayplan.runtimes.simulator.plots import paired_bars
from bayplan.runtimes.simulator.report import page
from bayplan.testing import make_node, make_pod
from tests.runtimes.simulator.desk import Desk, sent, write_config

PACK = """
import bayplan

@bayplan.filter
def room(pod, nodes):
    return bayplan.Reason("too little CPU").where(nodes["cpu.free"] < pod.cpu_milli)

@bayplan.score(best="low")
def packed(pod, nodes):
    return nodes["cpu.free"]
"""
SPREAD = PACK.replace('best="low"', 'best="high"')
NONE = PACK.replace('nodes["cpu.free"] < pod.cpu_milli', 'nodes["cpu.free"] < 5000').replace(
    "too little", "never enough"
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A small dear node, a large cheap one, and three pods that were asked about."""
    made = Desk(write_config(tmp_path / "pack", policy=PACK), tmp_path / "r.jsonl")
    made.cache.put_node(make_node("small", cpu=2, zone="a", labels={"price": "3"}).object)
    made.cache.put_node(make_node("large", cpu=4, zone="b", labels={"price": "1.5"}).object)
    made.cache.put_pod(make_pod("old", node="small", cpu="1"))
    for number in range(3):
        made.ask("filter", sent(make_pod(f"web-{number}", uid=f"w{number}", cpu="500m"), ["small", "large"]))
    made.recorder.close()
    return made


def compared(desk: Desk, tmp_path: Path, other: str, price_label: str = "price") -> Comparison:
    config = write_config(tmp_path / "other", policy=other)
    first, second = desk.loaded.policies, load_all((), Flags(config=config)).policies
    names = ("pack", "other")
    return compare(desk.file, lambda *_: first, lambda *_: second, names=names, price_label=price_label)


def test_nodes_of_a_cloud_are_told_apart_beside_their_bars() -> None:
    names = [f"ip-10-11-3{n}-7.eu-central-1.compute.internal" for n in range(2)]

    drawn = paired_bars([*names, "n" * 200], [1, 2, 3], [3, 2, 1], title="pods by node")

    shown = re.findall(r"</title>(.*?)</text>", drawn)
    assert shown[:2] == names
    assert len(shown[2]) == 44
    assert f"<title>{'n' * 200}</title>" in drawn


def test_pods_that_would_be_elsewhere_are_named_and_measured(desk: Desk, tmp_path: Path) -> None:
    found = compared(desk, tmp_path, SPREAD)

    assert [(p.pod, p.change, p.first.node, p.second.node) for p in found.pods] == [
        (f"default/web-{number}", "elsewhere", "small", "large") for number in range(3)
    ]
    one, other = found.measures()
    assert (one.nodes_used, one.most_on_a_node, one.most_in_a_zone) == (1, 3, 3)
    assert (one.price_of_nodes, other.price_of_nodes) == (3.0, 1.5)
    assert (one.cpu_share_max, other.cpu_share_max) == (0.75, 0.125)


@pytest.mark.parametrize(
    ("label", "said"),
    [
        pytest.param("prise", ["no node of 2 has it; did you mean 'price'?"], id="a mistyped one"),
        pytest.param(
            "topology.kubernetes.io/zone", ["'a' on small, 'b' on large cannot be read"], id="texts"
        ),
        pytest.param("price", [], id="the right one"),
        pytest.param("", [], id="none"),
    ],
)
def test_a_price_label_without_prices_is_told(
    desk: Desk, tmp_path: Path, label: str, said: list[str]
) -> None:
    warnings = compared(desk, tmp_path, SPREAD, price_label=label).warnings

    assert len(warnings) == len(said)
    for warning, text in zip(warnings, said, strict=True):
        assert warning.startswith(f"price label {label!r}: {text}")


def test_pods_that_would_be_refused_say_why(desk: Desk, tmp_path: Path) -> None:
    found = compared(desk, tmp_path, NONE)

    assert found.changes == {"refused": 3}
    assert found.pods[0].second == Placement("", "2 never enough CPU")


def test_where_several_are_as_good_the_pod_stays(desk: Desk, tmp_path: Path) -> None:
    nobody_scores = "import bayplan\n\n\n@bayplan.filter\ndef any_will_do(pod, node):\n    return None\n"

    found = compared(desk, tmp_path, nobody_scores)

    assert found.changes == {"same": 3}
    assert {pod.second.node for pod in found.pods} == {"small"}


def test_the_same_policies_change_nothing(desk: Desk, tmp_path: Path) -> None:
    found = compared(desk, tmp_path, PACK)

    assert found.changes == {"same": 3}
    assert found.different == []


def test_only_the_last_try_of_a_pod_counts(desk: Desk, tmp_path: Path) -> None:
    again = Desk(tmp_path / "pack" / "bayplan.yaml", tmp_path / "again.jsonl")
    pod = make_pod("web", uid="w", cpu="3")
    again.ask("filter", sent(pod, []))
    again.cache.put_node(make_node("late").object)
    again.ask("filter", sent(pod, ["late"]))
    again.recorder.close()

    found = compared(again, tmp_path, SPREAD)

    assert [(p.pod, p.change, p.first.node) for p in found.pods] == [("default/web", "same", "late")]


def test_a_policy_that_fails_refuses_and_is_named(desk: Desk, tmp_path: Path) -> None:
    found = compared(
        desk, tmp_path, "import bayplan\n\n@bayplan.filter\ndef f(pod, node):\n    return 1 // 0\n"
    )

    assert "ZeroDivisionError" in found.pods[0].second.reason


@pytest.mark.parametrize(
    ("whole", "broken"),
    [
        pytest.param('"at":"2', '"at":"x', id="a moment that is none"),
        pytest.param('"Pod":{', '"Pod":[],"Was":{', id="a pod that is none"),
        pytest.param('"Pod":{', '"Was":{', id="no pod"),
        pytest.param('"NodeNames":[', '"NodeNames":[0,', id="a name that is none"),
        pytest.param('"at":', '"givenUp":{"p":{"kind":"x","text":"","summary":""}},"at":', id="no failure"),
    ],
)
def test_a_decision_that_is_damaged_is_left_out_and_told(
    desk: Desk, tmp_path: Path, whole: str, broken: str
) -> None:
    before, mark, after = desk.file.read_text().rpartition('{"line":"asked"')
    assert whole in after
    desk.file.write_text(before + mark + after.replace(whole, broken, 1))

    found = compared(desk, tmp_path, SPREAD)

    assert [pod.pod for pod in found.pods] == ["default/web-0", "default/web-1"]
    (warning,) = found.warnings
    assert warning.startswith("decision 3 of the recording cannot be read: ")


def test_where_every_decision_is_damaged_the_first_is_told(desk: Desk, tmp_path: Path) -> None:
    desk.file.write_text(desk.file.read_text().replace('"at":"2', '"at":"x'))

    with pytest.raises(RecordingError, match=r"(?s)nothing to compare.*decision 1 of .* \(3 cannot\)"):
        compared(desk, tmp_path, SPREAD)


def test_nothing_measured_is_nan_and_not_zero() -> None:
    nothing = measure([])

    assert (nothing.placed, nothing.nodes_used) == (0, 0)
    assert math.isnan(nothing.cpu_share_mean)
    assert math.isnan(nothing.price_of_nodes)


class _Tags(HTMLParser):
    """Counts what is opened and not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_lets_no_name_in_as_markup(desk: Desk, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    pods = [
        PodComparison(f"ns/{evil}", "now", Placement(evil, score=1, cpu_share=0.5), Placement("", evil)),
        PodComparison("ns/other", "now", Placement("a"), Placement("b", cpu_share=1.2)),
    ]
    tags = _Tags()

    text = page(Comparison((evil, "b"), pods, [evil]), recording=evil)
    tags.feed(text)
    tags.close()

    assert tags.open == []
    assert "script" not in tags.seen
    assert {"svg", "rect", "table"} <= tags.seen
    assert "http" not in text
