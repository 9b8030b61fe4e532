"""The guard fails when a third of the lead over Go is lost, twice in a row, and only then."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from bench import guard
from bench.guard import ROUNDS, TIMES_AS_MANY_ROUNDS, NotRecorded, look, recorded_ratios, report
from bench.peers_built import PEERS, PeerMissing
from bench.wire import Size, measure
from bench.wire_figures import FULL, NAMES, Line
from bench.wire_servers import Peers
from tests.bench.go_peer import require_go
from tests.bench.wire_lines import line

RECORDED = {(NAMES, 500, "filter"): 3.0, (NAMES, 500, "prioritize"): 3.0}
ONE_SIZE = {Size(NAMES, 500, 1): 7}


class MadeUp:
    """Measurements in the order in which they are asked for: the ratios of both verbs."""

    def __init__(self, *ratios: tuple[float, float]) -> None:
        self._ratios = list(ratios)
        self.rounds: list[int] = []

    def __call__(self, size: Size, rounds: int) -> Sequence[Line]:
        self.rounds.append(rounds)
        both = zip(("filter", "prioritize"), self._ratios.pop(0), strict=True)
        return [line(ratio, mode=size.mode, nodes=size.nodes, verb=verb) for verb, ratio in both]


def slow(findings: Iterable[guard.Finding]) -> list[str]:
    return [one.line.verb for one in findings if one.too_slow]


@pytest.mark.parametrize(
    ("ratio", "failing"),
    [
        pytest.param(3.0, [], id="as recorded"),
        pytest.param(9.0, [], id="faster"),
        pytest.param(2.01, [], id="just above two thirds"),
        pytest.param(1.99, ["filter"], id="just below two thirds"),
        pytest.param(0.5, ["filter"], id="slower than Go"),
    ],
)
def test_two_thirds_of_the_recorded_lead_must_be_kept(ratio: float, failing: list[str]) -> None:
    measured = MadeUp((ratio, 3.0), (ratio, 3.0))

    assert slow(look(RECORDED, measured, rounds=ONE_SIZE)) == failing


def test_what_is_fast_enough_is_measured_once() -> None:
    measured = MadeUp((3.0, 3.0))

    look(RECORDED, measured, rounds=ONE_SIZE)

    assert measured.rounds == [7]


def test_what_is_too_slow_is_measured_again_for_longer_before_it_counts() -> None:
    measured = MadeUp((1.0, 3.0), (3.0, 3.0))

    assert slow(look(RECORDED, measured, rounds=ONE_SIZE)) == []
    assert measured.rounds == [7, 7 * TIMES_AS_MANY_ROUNDS]
    assert TIMES_AS_MANY_ROUNDS > 1


def test_only_what_was_too_slow_both_times_fails() -> None:
    measured = MadeUp((1.0, 3.0), (3.0, 1.0))

    assert slow(look(RECORDED, measured, rounds=ONE_SIZE)) == []


def test_one_disturbed_round_does_not_count() -> None:
    disturbed = [line(3.0, 3.0, 0.1, 3.0, 0.2, verb=verb) for verb in ("filter", "prioritize")]

    assert slow(look(RECORDED, lambda *_: disturbed, rounds=ONE_SIZE)) == []


def test_each_verb_and_size_is_compared_with_its_own_record() -> None:
    recorded = {(NAMES, 500, "filter"): 1.0, (NAMES, 500, "prioritize"): 6.0}

    assert slow(look(recorded, MadeUp((2.0, 2.0), (2.0, 2.0)), rounds=ONE_SIZE)) == ["prioritize"]


def test_the_report_names_what_is_too_slow_and_what_to_do() -> None:
    said = report(look(RECORDED, MadeUp((1.0, 3.0), (1.0, 3.0)), rounds=ONE_SIZE))

    assert "| names only, 500 | filter | 1.0 (1.0 to 1.0) | 3.0 | 2.0 | TOO SLOW |" in said
    assert "| names only, 500 | prioritize | 3.0 (3.0 to 3.0) | 3.0 | 2.0 | good |" in said
    assert "TOO SLOW, twice: names only, 500, filter." in said
    assert "`make bench`" in said


def test_a_size_that_was_never_recorded_is_an_error_with_a_way_out() -> None:
    with pytest.raises(NotRecorded, match=r"has no names only, 500, filter: `make bench` records it"):
        look({}, MadeUp((3.0, 3.0)), rounds=ONE_SIZE)


def test_without_any_record_the_way_out_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotRecorded, match="`make bench` records"):
        recorded_ratios(tmp_path / "wire.json")


def test_ratios_are_read_from_what_the_benchmark_wrote(tmp_path: Path) -> None:
    file = tmp_path / "wire.json"
    lines = [dataclasses.asdict(one) for one in (line(2.0, 3.0, 9.0), line(4.0, mode=FULL, nodes=1_000))]
    file.write_text(json.dumps({"command": "made up", "lines": lines}))

    assert recorded_ratios(file) == pytest.approx({(NAMES, 500, "filter"): 3.0, (FULL, 1_000, "filter"): 4.0})


def test_of_several_machines_the_lowest_ratio_counts(tmp_path: Path) -> None:
    for name, ratio in (("wire", 3.0), ("wire-older", 2.0), ("wire-newer", 5.0)):
        lines = [dataclasses.asdict(line(ratio))]
        (tmp_path / f"{name}.json").write_text(json.dumps({"command": "made up", "lines": lines}))

    assert recorded_ratios(tmp_path / "wire.json") == pytest.approx({(NAMES, 500, "filter"): 2.0})


def test_all_that_the_guard_measures_is_recorded() -> None:
    wanted = {(size.mode, size.nodes, verb) for size in ROUNDS for verb in ("filter", "prioritize")}

    assert wanted <= recorded_ratios().keys()


@pytest.mark.parametrize(
    ("ratio", "code"),
    [pytest.param(3.0, 0, id="the lead is kept"), pytest.param(0.1, 1, id="the lead is lost")],
)
def test_the_exit_code_says_whether_the_lead_is_kept(
    ratio: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "find_go", lambda: Path("go-extender"))
    monkeypatch.setattr(guard, "recorded_ratios", lambda: RECORDED | _same_for_all(3.0))
    monkeypatch.setattr(guard, "measure", lambda size, *_: MadeUp((ratio, ratio))(size, 1))

    with pytest.raises(SystemExit) as ended:
        guard.main()

    assert ended.value.code == code


def test_without_go_the_guard_is_left_out_loudly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(guard, "find_go", _no_go)

    guard.main()

    assert capsys.readouterr().err == "!!! NO GUARD OF THE SPEED: no Go here\n"


def test_without_go_ci_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(guard, "find_go", _no_go)

    with pytest.raises(SystemExit, match="NO GUARD OF THE SPEED: no Go here"):
        guard.main()


@pytest.mark.e2e
def test_a_policy_that_became_slow_is_found_by_a_real_run(tmp_path: Path) -> None:
    policy = (PEERS / "bayplan" / "policy.py").read_text()
    # Without its promise: else it would be asked about two pods, and then no more.
    slowed = policy.replace("    return NO_SSD", "    time.sleep(0.1)\n    return NO_SSD")
    slowed = slowed.replace('reads="node"', 'reads="cluster"')
    (tmp_path / "slowed.py").write_text(slowed.replace("import numpy", "import time\n\nimport numpy"))
    peers = Peers(require_go(), flask=None)

    def measured(size: Size, rounds: int) -> Sequence[Line]:
        return measure(size, peers, rounds, policy=tmp_path / "slowed.py")

    # Go takes some milliseconds here: with 100 on our side, nothing like that lead can be left.
    recorded = {(NAMES, 100, "filter"): 1.0, (NAMES, 100, "prioritize"): 0.001}
    assert slow(look(recorded, measured, rounds={Size(NAMES, 100, 5): 2})) == ["filter"]


def _same_for_all(ratio: float) -> dict[tuple[str, int, str], float]:
    return {(size.mode, size.nodes, verb): ratio for size in ROUNDS for verb in ("filter", "prioritize")}


def _no_go() -> Path:
    raise PeerMissing("no Go here")
