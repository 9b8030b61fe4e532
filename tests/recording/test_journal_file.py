"""The journal on disk tells what the journal in memory tells, survives a kill, and keeps nobody waiting."""

import errno
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.engine.entry import Entry, PodRef, Voice
from bayplan.engine.journal import Journal
from bayplan.engine.why import Why, bound_node, explain
from bayplan.recording import appended
from bayplan.recording import journal_file as module
from bayplan.recording.appended import AppendedFile
from bayplan.recording.journal_file import JournalFile, JournalFileOptions
from bayplan.recording.journal_why import why_from_file
from bayplan.recording.lines import RecordingError
from bayplan.testing import make_pod
from bayplan.wire.scale import to_wire
from tests.controlplane.waiting import wait_until
from tests.web.decided import cluster_of, filtered, scored, written

CLUSTER = cluster_of(12)
KEY = "shop/web-1"
WEB = make_pod("web-1", namespace="shop", cpu=2, labels={"app": "web"})
POD = PodRef.of(WEB)


@contextmanager
def writing(
    path: Path, *, cluster: bool = True, schedules: bool = False, **options: int
) -> Iterator[tuple[Journal, list[str]]]:
    """A journal that is written to a file, and what was counted."""
    counted: list[str] = []
    where = JournalFileOptions(path, **options)
    file = JournalFile(where, version="1", cluster=cluster, schedules=schedules, count=counted.append)
    try:
        yield Journal(on_entry=[file.add], clock=lambda: 1_700_000_000.25), counted
    finally:
        file.close()


def decide(journal: Journal) -> None:
    """A filter and a prioritize for the pod."""
    journal.write("filter", filtered(CLUSTER, WEB), generation=1)
    journal.write("prioritize", scored(CLUSTER, WEB), generation=1)


def in_memory(journal: Journal) -> Why:
    entries, names = journal.of_pod(KEY), CLUSTER.nodes.names
    found = explain(entries, every_node=names, chosen=bound_node(entries), to_wire=to_wire, weight=2.0)
    assert found is not None
    return msgspec.structs.replace(found, pods_seen=False)


def on_disk(path: Path) -> Why:
    found, warnings = why_from_file(path, KEY, weight=2.0)
    assert warnings == []
    assert found is not None
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_is_put_together_later_is_not_put_together_to_be_weighed(tmp_path: Path) -> None:
    """On the way of an answer: what was known beforehand is laid out when the thread writes it."""

    class Known(Entry, frozen=True, eq=False, kw_only=True):
        @property  # type: ignore[misc]
        def voices(self) -> tuple[Voice, ...]:
            laid_out.append(threading.current_thread())
            return ()

        @property
        def nbytes(self) -> int:
            return 100

    laid_out: list[threading.Thread] = []
    with writing(tmp_path / "j") as (journal, _):
        decided = journal.write("filter", filtered(CLUSTER, WEB), generation=1)
        fields = {field: getattr(decided, field) for field in decided.__struct_fields__}
        (add,) = journal.on_entry
        add(Known(**fields))

    assert laid_out
    assert threading.current_thread() not in laid_out


def test_why_is_the_same_from_disk_as_from_memory(tmp_path: Path) -> None:
    left_out = tuple((f"node-{number}", "keep", "protected") for number in range(9))
    with writing(tmp_path / "j") as (journal, counted):
        decide(journal)
        journal.note("preempt", POD, generation=1, dropped=left_out)
        journal.note("bind", PodRef("shop", "web-1", POD.uid, {}, {}, 0, ""), generation=1, node="node-0007")
        written(journal, CLUSTER, namespace="other")

    found = on_disk(tmp_path / "j")

    assert found == in_memory(journal)
    assert (found.chosen, found.never_offered, found.left_out[0].count) == ("node-0007", 0, 9)
    assert found.ranking
    assert counted == ["written"] * 6


def test_the_journal_of_a_scheduler_says_that_nobody_was_told_scores(tmp_path: Path) -> None:
    with writing(tmp_path / "j", schedules=True) as (journal, _):
        decide(journal)
        journal.note("bind", POD, generation=1, node="node-0007")

    found = on_disk(tmp_path / "j")

    assert (found.schedules, found.chosen) == (True, "node-0007")
    assert {(node.wire, node.points) for node in found.ranking} == {(0, 0.0)}
    assert found.ranking[0].total > 0
    told = [node["wire"] for line in lines(tmp_path / "j") for node in line.get("ranking", ())]
    assert told
    assert set(told) == {0}


def test_a_journal_without_a_word_of_it_is_that_of_an_extender(tmp_path: Path) -> None:
    with writing(tmp_path / "j") as (journal, _):
        decide(journal)
    header, *rest = (tmp_path / "j").read_text().splitlines()
    known = json.loads(header)
    known.pop("schedules", None)
    (tmp_path / "j").write_text("\n".join([json.dumps(known), *rest, ""]))

    assert not on_disk(tmp_path / "j").schedules


def test_a_line_says_in_plain_words_what_was_decided(tmp_path: Path) -> None:
    with writing(tmp_path / "j") as (journal, _):
        written(journal, CLUSTER)

    header, names, filtered, scored = lines(tmp_path / "j")

    assert (header["line"], header["format"], header["bayplan"]) == ("journal", 1, "1")
    assert names["names"][:2] == ["node-0000", "node-0001"]
    assert (filtered["decision"], filtered["at"]) == (1, "2023-11-14T22:13:20.250000+00:00")
    assert (filtered["verb"], filtered["generation"], filtered["result"]) == ("filter", 1, "ok")
    assert (filtered["offered"], filtered["passed"]) == (12, 6)
    assert filtered["pod"]["name"] == "web-1"
    groups = [(each["policy"], each["reason"], each["count"]) for each in filtered["refused"]]
    assert groups == [("capacity", "too little CPU", 3), ("placement", "wrong zone", 3)]
    assert [each["policy"] for each in filtered["hooks"]] == ["capacity", "placement"]
    assert all(each["seconds"] > 0 for each in filtered["hooks"])
    assert scored["ranking"][0]["node"] == "node-0007"
    assert [part["policy"] for part in scored["ranking"][0]["contributions"]] == ["cost", "spare"]


def test_names_of_nodes_are_written_once_and_again_in_each_file(tmp_path: Path) -> None:
    with writing(tmp_path / "j", max_bytes=20_000, keep=100) as (journal, counted):
        written(journal, CLUSTER, pods=20)
        # The same names, sent anew, as a list of its own.
        journal.write("filter", filtered(cluster_of(12)), generation=1)

    files = sorted(tmp_path.iterdir())
    kinds = [[line["line"] for line in lines(each)] for each in files]
    assert len(files) > 2
    assert all(found[:2] == ["journal", "nodes"] and found.count("nodes") == 1 for found in kinds if found)
    assert sum(found.count("decision") for found in kinds) == len(counted) == 41
    for number in range(1, 21):
        assert why_from_file(tmp_path / "j", f"shop/web-{number}", weight=1.0)[0] is not None


def test_a_server_that_starts_again_goes_on_and_the_newest_attempt_counts(tmp_path: Path) -> None:
    with writing(tmp_path / "j") as (journal, _):
        decide(journal)
        written(journal, CLUSTER, namespace="other", pods=2)
        journal.note("bind", POD, generation=1, error="too late")
    with writing(tmp_path / "j") as (journal, _):
        # Its number is 1 again, lower than those before.
        journal.write("filter", filtered(CLUSTER, WEB), generation=5)

    found = on_disk(tmp_path / "j")

    assert (found.generation, found.decision, found.bind_error, found.ranking) == (5, 1, "", [])
    assert [told.decision for told in found.history] == [1, 7, 2, 1]


def test_half_a_line_at_the_end_is_left_out_and_told(tmp_path: Path) -> None:
    with writing(tmp_path / "j") as (journal, _):
        decide(journal)
    whole = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(whole[:-700])

    found, warnings = why_from_file(tmp_path / "j", KEY, weight=1.0)

    assert found is not None
    assert (found.passed, found.ranking) == (6, [])
    assert warnings == ["j: the last line is cut off, as by a kill; it is left out"]

    with writing(tmp_path / "j") as (journal, _):
        journal.note("bind", POD, generation=1, node="node-0007")
    found, warnings = why_from_file(tmp_path / "j", KEY, weight=1.0)
    assert found is not None
    assert found.chosen == "node-0007"
    assert len(warnings) == 1
    assert "line 4 is left out" in warnings[0]


def test_names_that_would_forge_a_line_stay_in_theirs(tmp_path: Path) -> None:
    hostile = 'x"}\n{"line":"dropped","count":7}\n\u2028'
    with writing(tmp_path / "j") as (journal, _):
        journal.note(
            "bind", PodRef("shop", "web-1", "u", {hostile: hostile}, {}, 0, ""), generation=1, node=hostile
        )

    assert [line["line"] for line in map(json.loads, (tmp_path / "j").read_bytes().splitlines())] == [
        "journal",
        "decision",
    ]


@contextmanager
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A disk that takes nothing until it is set."""
    ready, write = threading.Event(), AppendedFile.write
    monkeypatch.setattr(AppendedFile, "write", lambda self, line: (ready.wait(30), write(self, line))[1])
    try:
        yield ready
    finally:
        ready.set()


def test_a_disk_that_is_too_slow_costs_lines_that_are_counted_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_WAITING", 3)
    with writing(tmp_path / "j") as (journal, counted), slow_disk(monkeypatch) as ready:
        journal.write("filter", filtered(CLUSTER), generation=1)
        file: JournalFile = journal.on_entry[0].__self__  # type: ignore[attr-defined]
        wait_until(file._backlog.empty, 5, what="the first is being written")
        for _ in range(10):
            journal.note("bind", POD, generation=1)
        assert counted == ["dropped"] * 7
        assert file.problem == "the disk is slower than the decisions"
        ready.set()
        wait_until(lambda: counted.count("written") == 4, 5, what="the rest is written")
        assert file.problem == ""

    assert len(journal) == 11
    assert caplog.text.count("is not in the journal on disk") == 1
    assert why_from_file(tmp_path / "j", KEY, weight=1.0)[1] == [
        "j: 7 decisions are missing: the disk was too slow or full"
    ]
    caplog.clear()


def test_a_disk_that_was_full_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = AppendedFile.write

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with writing(tmp_path / "j") as (journal, counted):
        file: JournalFile = journal.on_entry[0].__self__  # type: ignore[attr-defined]
        monkeypatch.setattr(AppendedFile, "write", full)
        for number in range(1, 4):
            journal.write("filter", filtered(CLUSTER), generation=1)
            wait_until(lambda n=number: counted == ["dropped"] * n, 5, what="it is dropped")  # type: ignore[misc]
        assert "No space left on device" in file.problem
        monkeypatch.setattr(AppendedFile, "write", write)
        journal.write("filter", filtered(CLUSTER), generation=1)
        wait_until(lambda: "written" in counted, 5, what="it is written")
        assert file.problem == ""

    found, warnings = why_from_file(tmp_path / "j", KEY, weight=1.0)
    assert found is not None
    assert found.decision == 4
    assert warnings == ["j: 3 decisions are missing: the disk was too slow or full"]
    assert caplog.text.count("is not in the journal on disk") == 1
    caplog.clear()


@pytest.mark.parametrize("where", ["the header", "a folder"])
def test_a_disk_that_is_full_at_the_start_is_tried_again_with_each_decision(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "folder" / "j"
    with monkeypatch.context() as patched:
        if where == "a folder":
            patched.setattr(Path, "mkdir", full)
        else:
            patched.setattr(appended, "put_all", full)
        file = JournalFile(JournalFileOptions(path), version="1", cluster=True)
    journal = Journal(on_entry=[file.add])

    assert file.problem == f"{path}: No space left on device"
    assert "decisions are not written to the journal on disk" in caplog.text
    caplog.clear()
    decide(journal)
    file.close()
    assert file.problem == ""
    assert [line["line"] for line in lines(path)] == ["journal", "nodes", "decision", "decision"]


def test_what_cannot_be_told_is_counted_and_the_next_one_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with writing(tmp_path / "j") as (journal, counted):
        journal.note("bind", POD, generation=1, node="half a pair \ud800")
        journal.note("bind", POD, generation=1, node="node-0007")

    assert counted == ["failed", "written"]
    assert "a decision could not be written down" in caplog.text
    caplog.clear()


def test_where_a_pod_was_seen_is_written_down_once(tmp_path: Path) -> None:
    with writing(tmp_path / "j") as (journal, counted):
        file: JournalFile = journal.on_entry[0].__self__  # type: ignore[attr-defined]
        decide(journal)
        wait_until(lambda: len(counted) == 2, 5, what="both are written")
        assert [who.uid for who in file.awaited] == [WEB.uid]
        # Not bound yet, and another pod of the name is.
        file.look({"another": "node-0001"})
        file.look({"another": "node-0001", WEB.uid: "node-0007"})
        wait_until(lambda: not file.awaited, 5, what="it was seen")
        file.look({WEB.uid: "node-0007"})

    assert [line["node"] for line in lines(tmp_path / "j") if line["line"] == "placed"] == ["node-0007"]
    assert on_disk(tmp_path / "j").chosen == "node-0007"
    assert counted == ["written"] * 2


def test_a_pod_that_we_bound_is_not_looked_for(tmp_path: Path) -> None:
    with writing(tmp_path / "j") as (journal, counted):
        file: JournalFile = journal.on_entry[0].__self__  # type: ignore[attr-defined]
        decide(journal)
        journal.note("bind", POD, generation=1, node="node-0007")
        wait_until(lambda: len(counted) == 3, 5, what="all are written")
        wait_until(lambda: not file.awaited, 5, what="nothing is to be looked for")


def test_a_server_without_a_cluster_does_not_know_what_was_never_offered(tmp_path: Path) -> None:
    with writing(tmp_path / "j", cluster=False) as (journal, _):
        journal.write("filter", filtered(CLUSTER), generation=1)

    assert on_disk(tmp_path / "j").never_offered is None


def test_a_file_that_is_being_put_aside_is_read_once(tmp_path: Path) -> None:
    with writing(tmp_path / "j") as (journal, _):
        written(journal, CLUSTER)
    (tmp_path / "j.1").hardlink_to(tmp_path / "j")

    assert len(on_disk(tmp_path / "j").history) == 2


def test_a_line_whose_names_are_missing_is_left_out(tmp_path: Path) -> None:
    with writing(tmp_path / "j") as (journal, _):
        written(journal, CLUSTER)
    kept = [line for line in (tmp_path / "j").read_text().splitlines() if '"line":"nodes"' not in line]
    (tmp_path / "j").write_text("\n".join(kept) + "\n")

    found, warnings = why_from_file(tmp_path / "j", KEY, weight=1.0)

    assert found is None
    assert warnings == [f"j: line {n} is left out: the names of its nodes are not there" for n in (2, 3)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "no such file; `bayplan serve --journal-file FILE` writes one", id="nothing"),
        pytest.param("# Readme\n\nText\n\n", "no journal of Bayplan", id="a text"),
        pytest.param(
            '{"line":"header","format":1}\n', "a recording, and no journal.*bayplan replay", id="a recording"
        ),
        pytest.param(
            '{"kind":"List","items":[]}', "a snapshot of a cluster, and no journal", id="one line without end"
        ),
        pytest.param('{\n  "apiVersion": "v1",\n  "items": [', "a snapshot of a cluster", id="many lines"),
        pytest.param(
            '{"line":"journal","format":9,"bayplan":"9.0","started":"","cluster":true}\n' * 3,
            "format 9, and this Bayplan reads 1: use Bayplan 9.0",
            id="of a later Bayplan",
        ),
    ],
)
def test_what_is_no_journal_is_said_to_be_none(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "j").write_text(content)

    with pytest.raises(RecordingError, match=said):
        why_from_file(tmp_path / "j", KEY, weight=1.0)


def test_a_folder_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RecordingError, match=r"journal .*file/j: "), writing(tmp_path / "file" / "j"):
        pass


def test_a_file_that_cannot_be_put_aside_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "j"
    (tmp_path / "j.1").mkdir()
    (tmp_path / "j.1" / "in the way").touch()
    with writing(path, max_bytes=2_000, keep=1) as (journal, counted):
        for _ in range(30):
            journal.note("bind", POD, generation=1, node="node-0007")
        wait_until(lambda: len(counted) == 30, 5, what="all were looked at")

    assert path.stat().st_size < 4_000
    assert counted.count("written") == sum(line["line"] == "decision" for line in lines(path))
    assert counted[-1] == "dropped"


def test_a_gap_in_the_numbers_hides_nothing(tmp_path: Path) -> None:
    with writing(tmp_path / "j") as (journal, _):
        decide(journal)
    (tmp_path / "j").rename(tmp_path / "j.3")

    assert on_disk(tmp_path / "j").chosen == on_disk(tmp_path / "j.3").chosen
