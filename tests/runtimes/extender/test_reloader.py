"""Whoever reloads goes on, whatever a file or a listener does; what hangs is nobody else's problem."""

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bayplan.authoring.editions import anew
from bayplan.config import watching as files_looked_at
from bayplan.config.check import load_checked
from bayplan.config.flags import Flags, Loaded
from bayplan.config.load import ConfigError
from bayplan.runtimes import reload
from bayplan.runtimes.reload import Reloader

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.02
HANGS = "from gate import reached, opened\nreached.set()\nopened.wait(60)\n"
COMMITS: dict[str, Any] = {
    "use": "SharedResource",
    "args": {"resource": "example.com/gpu", "capacity": "gpus"},
}
JUDGES: dict[str, Any] = {"use": "LeastAllocated"}


def policy(text: str, *, first: str = "") -> str:
    return f"{first}import bayplan\n\n@bayplan.filter\ndef says(pod, node):\n    return '{text}'\n"


def write(path: Path, text: str) -> None:
    """No reader sees half of it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


class Watched:
    """A reloader at work, and all that it told."""

    def __init__(self) -> None:
        self.adopted: list[Loaded] = []
        self.results: list[str] = []
        self.reloader: Reloader
        self.task: asyncio.Task[None]

    @property
    def says(self) -> list[Any]:
        """What the only hook of each generation says of any node."""
        return [loaded.policies[0].hooks[0].function(None, None) for loaded in self.adopted]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                assert not self.task.done(), "the reloader has ended"
                await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def watching(
    files: list[Path], *, config: Path | None = None, load_seconds: float = PATIENCE_SECONDS, **more: Any
) -> AsyncIterator[Watched]:
    found = Watched()
    names, flags = [str(file) for file in files], Flags(config=config)
    with anew():
        loaded, problems = load_checked(names, flags)
    assert problems == []
    found.reloader = Reloader(
        names,
        flags,
        loaded,
        adopt=more.get("adopt", found.adopted.append),
        on_result=more.get("on_result", found.results.append),
        look_seconds=LOOK_SECONDS,
        load_seconds=load_seconds,
    )
    found.task = asyncio.create_task(found.reloader.run())
    try:
        yield found
    finally:
        found.task.cancel()
        await asyncio.gather(found.task, return_exceptions=True)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module with two events: an import has reached the gate; the gate is open."""
    gate: Any = ModuleType("gate")
    gate.reached, gate.opened = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "gate", gate)
    yield gate
    gate.opened.set()


def loaders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "bayplan-reload"]


async def test_an_import_that_hangs_is_given_up_and_what_becomes_of_it_is_thrown_away(
    tmp_path: Path, gate: Any
) -> None:
    file = tmp_path / "policy.py"
    write(file, policy("one"))
    async with watching([file], load_seconds=0.2) as found:
        before = set(sys.modules)
        write(file, policy("late", first=HANGS))
        await found.until(lambda: found.results == ["refused"])
        assert "longer than 0.2 s" in found.reloader.problem
        assert [thread.daemon for thread in loaders()] == [True]

        hanging = set(sys.modules) - before
        assert hanging
        gate.opened.set()
        await found.until(lambda: not hanging & set(sys.modules))
        write(file, policy("two"))
        await found.until(lambda: found.results == ["refused", "ok"])

    assert found.says == ["two"]


async def test_while_an_import_hangs_nothing_else_is_loaded_and_afterwards_it_is(
    tmp_path: Path, gate: Any
) -> None:
    file = tmp_path / "policy.py"
    write(file, policy("one"))
    async with watching([file], load_seconds=0.2) as found:
        write(file, policy("late", first=HANGS))
        await found.until(lambda: found.results == ["refused"])

        write(file, policy("two"))
        await found.until(lambda: found.results == ["refused", "refused"])
        assert "still loading the previous change" in found.reloader.problem
        found.reloader.ask()
        await found.until(lambda: len(found.results) == 3)
        assert len(loaders()) == 1
        assert found.adopted == []

        gate.opened.set()
        await found.until(lambda: found.results[-1] == "ok")
        assert found.reloader.problem == ""

    assert found.says == ["two"]


async def test_an_import_that_hangs_takes_no_thread_of_others(tmp_path: Path, gate: Any) -> None:
    file = tmp_path / "policy.py"
    write(file, policy("one"))
    before = set(threading.enumerate())
    async with watching([file], load_seconds=0.2) as found:
        write(file, policy("late", first=HANGS))
        await found.until(gate.reached.is_set)

        started = {thread.name for thread in set(threading.enumerate()) - before}
        assert started == {"bayplan-look", "bayplan-reload"}
        await found.until(lambda: bool(found.results))


async def test_what_changes_while_it_is_loaded_is_loaded_too(tmp_path: Path, gate: Any) -> None:
    file = tmp_path / "policy.py"
    write(file, policy("one"))
    async with watching([file]) as found:
        write(file, policy("two", first=HANGS))
        await found.until(gate.reached.is_set)
        write(file, policy("three"))
        gate.opened.set()
        await found.until(lambda: len(found.adopted) == 2)

    assert found.says == ["two", "three"]


@pytest.mark.parametrize("name", ["late.py", "late/__init__.py"])
async def test_an_import_that_is_missing_is_tried_again_when_it_comes(tmp_path: Path, name: str) -> None:
    file, helper = tmp_path / "policy.py", tmp_path / name
    write(file, policy("one"))
    async with watching([file]) as found:
        write(file, policy("two", first="import late\n"))
        await found.until(lambda: found.results == ["refused"])
        assert "No module named 'late'" in found.reloader.problem
        # Looked at again and again, and told once.
        await asyncio.sleep(10 * LOOK_SECONDS)
        assert found.results == ["refused"]

        helper.parent.mkdir(exist_ok=True)
        write(helper, "raise ValueError('half done')\n")
        await found.until(lambda: found.results == ["refused", "refused"])
        assert "half done" in found.reloader.problem
        write(helper, "")
        await found.until(lambda: found.results == ["refused", "refused", "ok"])
        assert found.reloader.problem == ""

    assert found.says == ["two"]


async def test_an_import_that_leaves_with_an_error_that_cannot_be_printed_is_not_the_last(
    tmp_path: Path,
) -> None:
    file = tmp_path / "policy.py"
    write(file, policy("one"))
    async with watching([file]) as found:
        shy = "class Shy(KeyboardInterrupt):\n    def __str__(self): raise OSError\n\nraise Shy\n"
        write(file, policy("two", first=shy))
        await found.until(lambda: found.results == ["refused"])
        assert "Shy: (its text cannot be printed)" in found.reloader.problem
        write(file, policy("three"))
        await found.until(lambda: found.results == ["refused", "ok"])

    assert found.says == ["three"]


async def test_what_lies_beside_is_nobodys_business_while_all_is_well(tmp_path: Path) -> None:
    file = tmp_path / "policy.py"
    write(file, policy("one"))
    async with watching([file]) as found:
        write(file, "no Python")
        await found.until(lambda: found.results == ["refused"])
        write(file, policy("two"))
        await found.until(lambda: found.results == ["refused", "ok"])
        write(tmp_path / "other.py", "")
        await asyncio.sleep(10 * LOOK_SECONDS)

    assert found.results == ["refused", "ok"]


async def test_a_policy_file_that_the_configuration_names_may_come_after_it(tmp_path: Path) -> None:
    config = tmp_path / "bayplan.yaml"
    head = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\ncluster: {source: in-cluster}\n"
    write(config, f"{head}policies: [{JUDGES}]\n")
    async with watching([], config=config) as found:
        write(config, f"{head}policies: [{{use: policies/late.py}}]\n")
        await found.until(lambda: found.results == ["refused"])
        (tmp_path / "policies").mkdir()
        write(tmp_path / "policies" / "late.py", policy("late"))
        await found.until(lambda: found.results[-1] == "ok")

    assert found.says == ["late"]


async def test_a_listener_that_raises_does_not_end_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def tell(result: str) -> None:
        told.append(result)
        raise RuntimeError("cannot be told")

    file = tmp_path / "policy.py"
    write(file, policy("one"))
    async with watching([file], on_result=tell) as found:
        for number, text in enumerate(("two", "three"), start=1):
            write(file, policy(text))
            await found.until(lambda number=number: len(found.adopted) == number)  # type: ignore[misc]
        await found.until(lambda: told == ["ok", "ok"])

    assert found.says == ["two", "three"]
    assert "cannot be told" in caplog.text


async def test_a_server_that_cannot_take_it_over_keeps_the_old_one_and_no_trace_stays(tmp_path: Path) -> None:
    def adopt(loaded: Loaded) -> None:
        raise RuntimeError("no more sockets")

    file = tmp_path / "policy.py"
    write(file, policy("one"))
    async with watching([file], adopt=adopt) as found:
        before = set(sys.modules)
        write(file, policy("two"))
        await found.until(lambda: found.results == ["refused"])

        assert found.reloader.problem == "RuntimeError: no more sockets"
        assert set(sys.modules) == before


async def test_a_server_that_was_started_for_binding_may_bind_again(tmp_path: Path) -> None:
    config = tmp_path / "bayplan.yaml"

    def configure(entry: dict[str, Any]) -> None:
        head = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\ncluster: {source: in-cluster}\n"
        write(config, f"{head}policies: [{entry}]\n")

    configure(COMMITS)
    async with watching([], config=config) as found:
        for number, entry in enumerate((JUDGES, COMMITS), start=1):
            configure(entry)
            await found.until(lambda number=number: len(found.results) == number)  # type: ignore[misc]

        assert (found.results, found.reloader.problem) == (["ok", "ok"], "")


async def test_a_server_that_was_not_started_for_binding_may_not(tmp_path: Path) -> None:
    config = tmp_path / "bayplan.yaml"
    head = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\ncluster: {source: in-cluster}\n"
    write(config, f"{head}policies: [{JUDGES}]\n")
    async with watching([], config=config) as found:
        write(config, f"{head}policies: [{JUDGES}, {COMMITS}]\n")
        await found.until(lambda: found.results == ["refused"])

        assert "restart the server to change policies, so that one checks" in found.reloader.problem


async def test_two_configurations_are_never_loaded_at_once(tmp_path: Path) -> None:
    running: list[str] = []
    most: list[int] = []

    def load_slowly(name: str) -> Loaded:
        running.append(name)
        most.append(len(running))
        time.sleep(0.05)
        running.remove(name)
        raise ConfigError(name)

    file = tmp_path / "policy.py"
    write(file, policy("one"))
    with anew():
        loaded, _ = load_checked([str(file)], Flags())
    results: list[str] = []
    both = asyncio.Event()

    def note(result: str) -> None:
        results.append(result)
        if len(results) == 2:
            both.set()

    reloaders = [
        Reloader(
            [str(file)],
            Flags(),
            loaded,
            adopt=lambda _: None,
            on_result=note,
            load=partial(load_slowly, name),
            look_seconds=LOOK_SECONDS,
        )
        for name in ("live", "candidate")
    ]
    tasks = [asyncio.create_task(each.run()) for each in reloaders]
    for each in reloaders:
        each.ask()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await both.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert most == [1, 1]


async def test_a_load_that_hangs_does_not_keep_another_configuration_out(
    tmp_path: Path, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "_TURN_SECONDS", 0.1)
    here, there = tmp_path / "here.py", tmp_path / "there.py"
    write(here, policy("one"))
    write(there, policy("one"))
    async with watching([here]) as hanging, watching([there]) as other:
        write(here, policy("late", first=HANGS))
        await hanging.until(gate.reached.is_set)
        write(there, policy("two"))
        await other.until(lambda: other.results == ["ok"])
        assert hanging.results == []

    assert other.says == ["two"]


async def test_no_file_is_looked_at_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "policy.py"
    write(file, policy("one"))
    looked_in: set[threading.Thread] = set()
    look = files_looked_at._look

    def noted(path: Path) -> Any:
        looked_in.add(threading.current_thread())
        return look(path)

    async with watching([file]) as found:
        monkeypatch.setattr(files_looked_at, "_look", noted)
        write(file, "import missing_beside_it\n")
        await found.until(lambda: found.results == ["refused"])
        write(file, policy("two"))
        await found.until(lambda: found.results[-1] == "ok")

    assert looked_in
    assert threading.current_thread() not in looked_in
