"""An entry becomes a line and the line an entry: nothing is lost, nothing secret added, nothing run."""

import dataclasses
import datetime
import tracemalloc
import zlib
from typing import Any

import msgspec
import numpy as np
import pytest

from bayplan.authoring.verdict import Reason, Verdict
from bayplan.engine.cycle import Question, filter_nodes
from bayplan.engine.entry import Entry, PodRef, Voice
from bayplan.engine.journal import Journal
from bayplan.recording.journal_lines import DecisionLine
from bayplan.recording.journal_telling import entry_of, line_of
from bayplan.recording.lines import RecordingError
from bayplan.recording.packed import Packed, pack, unpack
from bayplan.snapshot.strings import Strings
from bayplan.testing import make_pod
from tests.web.decided import NOON, POLICIES, cluster_of, filtered, scored

CLUSTER = cluster_of(12)
BIND = Journal(clock=lambda: 1000.25).note(
    "bind", PodRef.of(make_pod("web-1")), generation=1, node="node-1", error="gone"
)
PREEMPTION = Journal(clock=lambda: 1000.25).note(
    "preempt",
    PodRef.of(make_pod("web-1")),
    generation=1,
    dropped=tuple((f"node-{number}", "keep", "protected") for number in range(9)),
    would_drop=(("node-9", "candidate", "dear"),),
)
ARRAY = np.array([0, 1], dtype=np.uint32)


def through_a_line(entry: Entry) -> Entry:
    text = msgspec.json.encode(line_of(entry, nodes=1))
    assert b"\n" not in text
    return entry_of(msgspec.json.decode(text, type=DecisionLine), list(entry.names))


def some_nodes() -> Entry:
    """Some of the nodes, in an order of their own, and one that nobody knows."""
    names = ["node-0009", "node-0003", "node-0004", "node-0000"]
    table = CLUSTER.nodes.take(CLUSTER.find(names), names)
    pod = make_pod("web-1", namespace="shop", cpu=2, labels={"app": "web"})
    decision = filter_nodes(POLICIES, Question(pod, table, CLUSTER, NOON, ("unknown",)))
    return Journal(clock=lambda: 1000.25).write("filter", decision, generation=7, observe=True)


def refusing(reason: Reason, **values: Any) -> Entry:
    """A hook that refuses both nodes for that reason, with these values."""
    verdict = Verdict(np.array([1, 1], dtype=np.int16), (reason,), (values,))
    voice = Voice(
        "p", "h", "filter", 0.1, reasons=(reason,), rows=ARRAY, codes=verdict.codes, values=(values,)
    )
    pod = PodRef.of(make_pod("web-1"))
    refused_by = np.zeros(2, dtype=np.int16)
    return Entry(1, 1000.5, "filter", 1, pod, ("a", "b"), ARRAY, (voice,), refused_by)


def scoring(detail: str, **values: Any) -> Entry:
    """A hook that scores both nodes, with these values behind the scores."""
    numbers = np.array([0.0, 100.0], dtype=np.float32)
    voice = Voice(
        "p", "h", "score", 0.1, 1.0, normalised=numbers, raw=numbers, values=(values,), score_detail=detail
    )
    pod, passed = PodRef.of(make_pod("web-1")), np.full(2, -1, dtype=np.int16)
    return Entry(1, 1000.5, "prioritize", 1, pod, ("a", "b"), ARRAY, (voice,), passed, total=numbers)


def behind(entry: Entry) -> list[str]:
    return [entry.voices[0].behind(place) for place in range(2)]


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(
            Journal(clock=lambda: 1000.25).write("filter", filtered(CLUSTER), generation=1), id="all nodes"
        ),
        pytest.param(
            Journal(clock=lambda: 1000.25).write("prioritize", scored(CLUSTER), generation=1), id="scores"
        ),
        pytest.param(some_nodes(), id="some nodes"),
        pytest.param(BIND, id="a bind"),
        pytest.param(PREEMPTION, id="a preemption"),
    ],
)
def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    again = through_a_line(entry)

    assert plain(again) == plain(entry)
    assert again.nodes == entry.nodes
    assert [list(voice.refusals()) for voice in again.voices] == [list(v.refusals()) for v in entry.voices]


def plain(each: Any) -> dict[str, Any]:
    """All fields but what details are made of, as something that can be compared."""
    found = {name: getattr(each, name) for name in each.__struct_fields__}
    found.pop("values", None)
    # Only what is kept is weighed.
    found.pop("nbytes", None)
    found["voices"] = [plain(voice) for voice in found.get("voices", ())]
    if not (isinstance(found.get("rows"), np.ndarray) and found["rows"].size):
        # A hook that refused nobody has reasons that nobody needs.
        found.pop("reasons", None)
    arrays = {n: (v.dtype.str, v.tolist()) for n, v in found.items() if isinstance(v, np.ndarray)}
    return (
        found
        | {n: msgspec.json.encode(v) for n, v in arrays.items()}
        | {"names": list(found.get("names", ()))}
    )


def test_a_reason_comes_back_with_all_it_says() -> None:
    reason = Reason(
        "no",
        detail="why",
        preemptible=True,
        helped_by=frozenset({"pods"}),
        advice="ask",
        also=("nor",),
        of_pod=True,
    )
    default = Reason("no")
    assert all(getattr(reason, f.name) != getattr(default, f.name) for f in dataclasses.fields(Reason)[1:])

    assert through_a_line(refusing(reason)).voices[0].reasons == (reason,)


@pytest.mark.parametrize(
    ("detail", "values"),
    [
        pytest.param("{x} free", {"x": np.array([7, 2**60])}, id="whole numbers"),
        pytest.param(
            "{x:.2f} of {y}", {"x": np.array([0.125, np.nan]), "y": np.float64(0.1)}, id="fractions"
        ),
        pytest.param("{x}", {"x": np.array([True, False])}, id="bools"),
        pytest.param(
            "disk {x}", {"x": Strings.intern(["ssd", None, "hdd"]).take(np.array([2, 1]))}, id="text"
        ),
        pytest.param("{x}", {"x": ["a", "b\nc"]}, id="a list"),
        pytest.param("{x}", {"x": Strings.intern(["a\ud800", "b"])}, id="half a surrogate pair in a column"),
        pytest.param("{x}", {"x": ["a\ud800", "b"]}, id="half a surrogate pair in a list"),
        pytest.param("{x}", {"x": "a\ud800"}, id="half a surrogate pair"),
        pytest.param("{x}", {"x": float("inf")}, id="no number of JSON"),
        pytest.param("{x:%Y}", {"x": datetime.date(2026, 1, 1)}, id="an object"),
        pytest.param("{x[gpu]}", {"x": {"gpu": "0"}}, id="within a value"),
        pytest.param("{x!r:>4}", {"x": "y"}, id="in another way"),
        pytest.param("{missing} and {x", {"x": 1}, id="a mistake"),
        pytest.param("{{}} {x:>+8,.3f}|", {"x": np.array([1234.5, -1.0])}, id="braces and signs"),
    ],
)
def test_a_detail_comes_back_with_the_numbers_of_its_node(detail: str, values: dict[str, Any]) -> None:
    entry = refusing(Reason("no", detail=detail), **values)

    assert list(told(through_a_line(entry))) == list(told(entry))

    score = scoring(detail, **values)
    assert behind(through_a_line(score)) == behind(score)


def told(entry: Entry) -> list[str]:
    return [text for _, _, text in entry.voices[0].refusals()]


@pytest.mark.parametrize(
    "detail",
    [
        pytest.param("{x.__class__}", id="looks into a value"),
        pytest.param("{x:>999999999}", id="fills the memory"),
        pytest.param("{x:{y}}", id="a format of its own"),
    ],
)
def test_a_detail_from_a_strange_file_is_not_filled_in(detail: str) -> None:
    line = line_of(refusing(Reason("no", detail="{x}"), x=1, y="999999999"), nodes=1)
    reason = msgspec.structs.replace(line.hooks[0].reasons[0], detail=detail)
    strange = msgspec.structs.replace(line, hooks=[msgspec.structs.replace(line.hooks[0], reasons=[reason])])

    assert told(entry_of(strange, ["a", "b"])) == ["", ""]

    line = line_of(scoring("{x}", x=1, y="999999999"), nodes=1)
    strange = msgspec.structs.replace(line, hooks=[msgspec.structs.replace(line.hooks[0], detail=detail)])
    assert behind(entry_of(strange, ["a", "b"])) == ["", ""]


def test_what_may_be_secret_is_in_no_line() -> None:
    pod = make_pod("web-1", cpu=2, labels={"app": "shown"}, annotations={"token": "hush-annotation"})
    text = msgspec.json.encode(
        line_of(Journal(clock=lambda: 1000.25).write("filter", filtered(CLUSTER, pod), generation=1), nodes=1)
    )

    assert b"shown" in text
    assert b"hush" not in text


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"refused_by": pack(np.array([0, 9], dtype=np.int16))}, id="a hook that is not there"),
        pytest.param({"refused_by": pack(np.array([0], dtype=np.int16))}, id="too few"),
        pytest.param({"rows": pack(np.array([0, 7], dtype=np.uint32))}, id="a node without a name"),
        pytest.param({"rows": pack(np.array([0.5, 1.5]))}, id="half a node"),
        pytest.param({"total": Packed("f4", 2, b"no zlib")}, id="no array"),
        pytest.param({"total": Packed("f4", 2**40, zlib.compress(b""))}, id="an array without end"),
        pytest.param({"total": Packed("f4", 2, zlib.compress(bytes(12)))}, id="more than it says"),
        pytest.param({"total": Packed("O", 2, zlib.compress(bytes(16)))}, id="an array of objects"),
    ],
)
def test_a_line_that_contradicts_itself_is_refused(change: dict[str, Any]) -> None:
    line = msgspec.structs.replace(line_of(refusing(Reason("no")), nodes=1), **change)

    with pytest.raises(RecordingError):
        entry_of(line, ["a", "b"])


def test_a_small_text_does_not_become_a_large_memory() -> None:
    bomb = Packed("f4", 2, zlib.compress(bytes(50_000_000)))
    tracemalloc.start()
    try:
        with pytest.raises(RecordingError, match="another size"):
            unpack(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


def test_an_array_of_any_order_is_packed_as_it_reads() -> None:
    wide = np.arange(10, dtype=">i4")[::2]
    packed = pack(wide)

    assert packed is not None
    assert unpack(packed).tolist() == [0, 2, 4, 6, 8]
    assert pack(np.array(["a"])) is None
    assert pack(np.zeros((2, 2))) is None
