"""The pytest fixtures: `control_plane` for the session, `cluster` for one test.

Use with ``pytest_plugins = ["tests.controlplane.fixtures"]`` in the conftest of the root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import BinariesMissing, BuildFailed, find_or_build, say_on_stderr
from tests.controlplane.plane import ControlPlane

_BINARIES = pytest.StashKey[Path | BinariesMissing | BuildFailed]()

# Those that select few tests, and may come first in `-m`, as in ``-m "e2e and not big"``.
_MARKERS = ("alone", "big", "chaos", "e2e")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "e2e: needs a real etcd, kube-apiserver and kube-scheduler")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that cannot hold a wanted test, for they do not even name the marker.

    Importing all of them takes longer than many a test, and each worker does it by itself.
    """
    first, *others = (config.option.markexpr or "").split() or [""]
    if first not in _MARKERS or "or" in others or not collection_path.match("test_*.py"):
        return None
    return None if f"mark.{first}" in collection_path.read_text() else True


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the binaries, if a test wants them, before the clock of the first test starts.

    A build takes minutes, and pytest-timeout counts fixtures as part of the test.
    """
    config = session.config
    if config.option.collectonly or not any(map(_wants_binaries, session.items)):
        return

    def say(line: str) -> None:
        # Captured output would come when the build is over.
        if capture := config.pluginmanager.getplugin("capturemanager"):
            with capture.global_and_fixture_disabled():
                say_on_stderr(f"\n{line}")
        else:
            say_on_stderr(line)

    try:
        config.stash[_BINARIES] = find_or_build(say=say)
    except (BinariesMissing, BuildFailed) as error:
        config.stash[_BINARIES] = error


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test that wants binaries where there are none.

    Here and not in the fixture: pytest then reports all of them in one line, not one line a test.
    """
    binaries = item.config.stash.get(_BINARIES, None)
    if isinstance(binaries, Path) or not _wants_binaries(item):
        return
    if isinstance(binaries, BuildFailed) or _required():
        pytest.fail(str(binaries), pytrace=False)
    pytest.skip(str(binaries))


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """A running etcd and kube-apiserver, shared by all tests of the session."""
    binaries = pytestconfig.stash[_BINARIES]
    assert isinstance(binaries, Path)
    with ControlPlane(binaries) as plane:
        yield plane


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane, empty before and after the test.

    A test that ends with the API server down fails by itself; the next one starts with a new one.
    """
    control_plane.recover()
    control_plane.api.clear()
    yield control_plane
    control_plane.check()
    control_plane.api.clear()


def _wants_binaries(item: pytest.Item) -> bool:
    return "control_plane" in getattr(item, "fixturenames", ())


def _required() -> bool:
    """Whether missing binaries are a failure: in CI, a skipped test is one that nobody sees."""
    return os.environ.get("CI", "") not in ("", "0", "false") or os.environ.get("BAYPLAN_REQUIRE_E2E") == "1"
