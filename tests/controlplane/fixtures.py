"""The pytest fixtures: `control_plane` for the session, `cluster` for one test.

Use with ``pytest_plugins = ["tests.controlplane.fixtures"]`` in the conftest of the root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.controlplane.binaries import BinariesMissing, find_or_build, say_on_stderr
from tests.controlplane.plane import ControlPlane


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "e2e: runs against a real control plane")


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """A running etcd and kube-apiserver, shared by all tests of the session."""

    def say(line: str) -> None:
        # A build takes minutes; captured output would come when it is over.
        capture = pytestconfig.pluginmanager.getplugin("capturemanager")
        if capture is None:
            say_on_stderr(line)
            return
        with capture.global_and_fixture_disabled():
            say_on_stderr(f"\n{line}")

    try:
        binaries = find_or_build(say=say)
    except BinariesMissing as error:
        if os.environ.get("CI", "") not in ("", "false", "0") or (
            os.environ.get("BAYPLAN_REQUIRE_E2E") == "1"
        ):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    with ControlPlane(binaries) as plane:
        yield plane


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane, empty before and after the test."""
    control_plane.check()
    control_plane.api.clear()
    yield control_plane
    control_plane.check()
    control_plane.api.clear()
