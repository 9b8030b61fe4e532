"""The wire benchmark: ratios with their spread, what misses the aim, and a real run of the smallest kind."""

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import wire
from bench.peers_built import PeerMissing
from bench.wire import QUICK, SIZES, VERBS, Size, measure
from bench.wire_figures import FULL, NAMES, OURS, REFERENCE, Recorded, Times, picture, table, text
from bench.wire_servers import Peers
from tests.bench.go_peer import require_go
from tests.bench.wire_lines import line

ROUNDS = 10


def test_p50_is_the_middle_of_the_rounds_with_the_lowest_and_the_highest() -> None:
    ratio = line(2.0, 9.0, 4.0, 3.0, 3.0).p50(REFERENCE)

    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((3.0, 2.0, 9.0))
    assert str(ratio) == "3.0 (2.0 to 9.0)"


def test_p99_is_that_of_all_calls_and_its_spread_leaves_one_round_out() -> None:
    quiet, disturbed = [0.001] * 99, [0.001] * 90 + [0.050] * 9
    times = Times.of([quiet, quiet, disturbed])

    assert times.p99 == pytest.approx(50.0)
    assert times.p99_without == pytest.approx([50.0, 50.0, 1.0])
    assert times.p50 == pytest.approx(1.0)


def test_with_few_calls_p99_is_the_worst() -> None:
    assert Times.of([[0.001, 0.002], [0.007, 0.003]]).p99 == pytest.approx(7.0)


def test_one_round_is_enough_for_a_figure() -> None:
    ratio = line(2.0).p99(REFERENCE)

    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size.mode}, {size.nodes}")
def test_every_size_has_calls_enough_for_p99(size: Size) -> None:
    assert size.pods * ROUNDS >= 100


def test_the_sizes_are_those_that_were_promised() -> None:
    assert [size.nodes for size in SIZES if size.mode == NAMES] == [100, 500, 5_000, 15_000]
    assert [size.nodes for size in SIZES if size.mode == FULL] == [100, 1_000, 5_000]
    assert {(size.mode, size.nodes) for size in QUICK} < {(size.mode, size.nodes) for size in SIZES}


def test_the_table_has_a_ratio_beside_every_time() -> None:
    head, _, row = table([line(4.0, 4.0)]).splitlines()

    assert head == "| nodes | verb | calls | Bayplan, ms: p50 / p99 | Go, ms: p50 / p99 |" + (
        " Go ÷ Bayplan, p50 | Go ÷ Bayplan, p99 |"
    )
    assert row == "| names only, 500 | filter | 400 | 2.00 / 2.00 | 8.00 / 8.00 | 4.0 (4.0 to 4.0) |" + (
        " 4.0 (4.0 to 4.0) |"
    )


@pytest.mark.parametrize(
    ("mode", "nodes", "bold"),
    [
        pytest.param(NAMES, 500, True, id="names from 500 on"),
        pytest.param(NAMES, 100, False, id="few names"),
        pytest.param(FULL, 100, True, id="full nodes of any number"),
    ],
)
def test_what_misses_the_aim_is_bold_and_told(mode: str, nodes: int, *, bold: bool) -> None:
    said = text([line(2.0, 2.0, mode=mode, nodes=nodes), line(5.0, 5.0, nodes=5_000)])

    assert ("**2.0 (2.0 to 2.0)**" in said) is bold
    assert (f"- {mode}, {nodes}, filter: 2.0 at p50" in said) is bold
    assert ("is reached everywhere" in said) is not bold
    assert "**5.0" not in said


def test_a_missed_p99_is_told_without_the_calls_after_a_pause_too() -> None:
    cold_first = Times.of([[0.004] + [0.001] * 19] * 5)
    missed = dataclasses.replace(line(4.0), times={OURS: cold_first, REFERENCE: Times.of([[0.004] * 20] * 5)})

    assert (cold_first.p99, cold_first.p99_later) == pytest.approx((4.0, 1.0))
    assert "filter: 1.0 at p99 (4.0 without the first call of each round)" in text([missed])


def test_recordings_without_that_figure_are_told_without_it() -> None:
    older = Times(calls=400, p50=1.0, p99=4.0, round_p50=[1.0], p99_without=[4.0])
    missed = dataclasses.replace(line(4.0), times={OURS: older, REFERENCE: older})

    assert "filter: 1.0 at p99\n" in text([missed])


def test_it_says_how_busy_the_machine_was() -> None:
    busy = dataclasses.replace(line(4.0), others_cores=1.5)

    assert "Others used 150% of a core at most meanwhile." in text([line(4.0), busy])


def test_the_picture_has_both_verbs_of_a_size_in_one_group() -> None:
    drawing = ElementTree.fromstring(picture([line(4.0), line(2.0, verb="prioritize")]))
    said = ["".join(one.itertext()) for one in drawing.iter("{http://www.w3.org/2000/svg}text")]

    assert said.count("names only, 500") == 1
    assert {"filter, p50", "filter, p99", "prioritize, p50", "prioritize, p99"} <= set(said)


def test_what_was_written_down_can_be_read_again(tmp_path: Path) -> None:
    file, lines = tmp_path / "wire.json", [line(4.0, 3.0), line(2.0)]
    whole = {
        "command": "python -m bench.wire",
        "machine": {},
        "lines": [dataclasses.asdict(one) for one in lines],
    }
    file.write_text(json.dumps(whole))

    assert Recorded.read(file) == Recorded("python -m bench.wire", lines)


def test_figures_picture_and_page_are_written_and_say_what_made_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "wire.md"
    page.write_text("# Title\n\n<!-- figures -->\n<!-- /figures -->\n")
    files = [f"--json={tmp_path}/wire.json", f"--plot={tmp_path}/wire.svg", f"--docs={page}"]
    monkeypatch.setattr("sys.argv", ["bench/wire.py", "--quick", "--rounds", "6", *files])
    monkeypatch.setattr(wire, "find_peers", lambda: Peers(Path("go-extender"), flask=None))
    monkeypatch.setattr(wire, "measure", lambda size, *_: [line(4.0, mode=size.mode, nodes=size.nodes)])

    wire.main()

    recorded = Recorded.read(tmp_path / "wire.json")
    assert recorded.command == "python -m bench.wire --quick --rounds 6"
    assert [(one.mode, one.nodes) for one in recorded.lines] == [(size.mode, size.nodes) for size in QUICK]
    assert (tmp_path / "wire.svg").read_text() == picture(recorded.lines)
    assert "Made by `python -m bench.wire --quick --rounds 6` on " in page.read_text()
    assert table(recorded.lines) in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--rounds", "0"], "--rounds must be 1 at least", id="no rounds"),
        pytest.param(["--docs", "nowhere.md"], "nowhere.md is not there", id="a page that is not there"),
    ],
)
def test_what_cannot_work_is_told_before_any_work(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench/wire.py", *arguments])

    with pytest.raises(SystemExit):
        wire.main()

    assert said in capsys.readouterr().err


def test_without_go_it_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_peers() -> Peers:
        raise PeerMissing("no Go here")

    monkeypatch.setattr("sys.argv", ["bench/wire.py"])
    monkeypatch.setattr(wire, "find_peers", no_peers)

    with pytest.raises(SystemExit, match=r"^no Go here$"):
        wire.main()


@pytest.mark.e2e
def test_real_servers_agree_and_every_call_is_counted() -> None:
    measured = measure(Size(NAMES, 20, 3), Peers(require_go(), flask=None), 2)

    assert [one.verb for one in measured] == list(VERBS)
    assert all(one.times.keys() == {"Bayplan", "Go"} for one in measured)
    assert all(times.calls == 6 and times.p50 > 0 for one in measured for times in one.times.values())
