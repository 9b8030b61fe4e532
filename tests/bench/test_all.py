"""All benchmarks in one command: one after another, and a failure is told and does not end the run."""

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import pytest

whole = importlib.import_module("bench.__main__")
ALL = ["wire", "cluster", "state", "scale", "bind"]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "_LISTENING_SECONDS", 0.01)


class Runs:
    """Runs nothing, and remembers what it was asked to."""

    def __init__(self, **codes: int) -> None:
        self._codes = codes
        self.arguments: dict[str, list[str]] = {}

    def __call__(self, argv: Sequence[str]) -> int:
        _, flag, module, *arguments = argv
        assert flag == "-m"
        name = module.removeprefix("bench.")
        self.arguments[name] = arguments
        return self._codes.get(name, 0)


def test_all_run_in_order_and_are_recorded() -> None:
    runs = Runs()

    assert whole.main([], runs) == 0

    assert list(runs.arguments) == [*ALL, "summary"]
    assert runs.arguments["bind"] == [
        "--json=docs/benchmarks/bind.json",
        "--plot=docs/benchmarks/bind.svg",
        "--docs=docs/benchmarks/bind.md",
    ]


def test_the_short_version_records_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs()

    assert whole.main(["--quick"], runs) == 0

    assert runs.arguments == {name: ["--quick"] for name in ALL}
    assert "nothing was recorded" in capsys.readouterr().out


def test_parts_can_be_chosen() -> None:
    runs = Runs()

    whole.main(["scale", "wire"], runs)

    assert list(runs.arguments) == ["wire", "scale", "summary"]


def test_one_that_fails_does_not_keep_the_others_from_running(capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs(cluster=2, scale=1)

    assert whole.main([], runs) == 1

    assert list(runs.arguments) == [*ALL, "summary"]
    said = capsys.readouterr().out
    assert "3 of 5 ended well" in said
    assert said.splitlines()[-1] == "FAILED: cluster (exit code 2), scale (exit code 1)"


def test_a_part_that_is_not_there_is_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        whole.main(["wires"], Runs())

    assert (
        "there is no benchmark wires: there are wire, cluster, state, scale, bind" in capsys.readouterr().err
    )


def test_it_says_how_long_it_will_take(capsys: pytest.CaptureFixture[str]) -> None:
    whole.main(["wire", "scale"], Runs())

    minutes = sum(part.minutes for part in whole.PARTS if part.name in ("wire", "scale"))
    assert capsys.readouterr().out.startswith(f"wire, scale: about {minutes} minutes")


@pytest.mark.parametrize(
    ("others", "warned"), [pytest.param(1.4, True, id="busy"), pytest.param(0.1, False, id="quiet")]
)
def test_it_warns_when_others_use_the_machine(
    others: float, *, warned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(whole.Busy, "by_others", lambda _: others)

    whole.main(["wire"], Runs())

    assert ("!!! THE MACHINE IS BUSY: others use 1.4 of" in capsys.readouterr().out) is warned


@pytest.mark.parametrize("name", ALL)
def test_every_part_is_a_module_with_a_page_that_has_a_place_for_figures(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "benchmarks" / f"{name}.md"

    assert importlib.util.find_spec(f"bench.{name}") is not None
    assert "<!-- figures -->" in page.read_text()
    assert "<!-- /figures -->" in page.read_text()


def test_a_part_that_runs_ends_with_its_exit_code() -> None:
    assert whole._run(["python3", "-c", "raise SystemExit(3)"]) == 3
