"""The binaries are found, built once, or missed with one clear sentence."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.controlplane.binaries import (
    MODULE,
    NAMES,
    BinariesMissing,
    BuildFailed,
    cache_directory,
    find_or_build,
    kubernetes_version,
)
from tests.controlplane.waiting import wait_until

ROOT = MODULE.parents[2]
OUR_FIXTURES_ALONE = [
    "-c",
    os.devnull,
    "-p",
    "no:cacheprovider",
    "-p",
    "tests.controlplane.fixtures",
]

# Plays `go env GOVERSION` and `go build ... -o DIR/ ./cmd/...`, and counts the builds.
FAKE_GO = f"""#!{sys.executable}
import os, pathlib, sys
here = pathlib.Path(__file__).parent
if sys.argv[1] == "env":
    print((here / "version").read_text())
    sys.exit(0)
with (here / "builds").open("a") as builds:
    print(os.environ["CGO_ENABLED"], sys.argv[sys.argv.index("-ldflags") + 1], file=builds)
if (here / "broken").exists():
    sys.exit("cmd/etcd/main.go:7: no such package")
target = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
for name in {NAMES}:
    (target / name).touch(0o755)
"""


class Machine:
    """An environment whose `go` is ours."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory / "bin"
        self.bin.mkdir()
        self.env = {"PATH": str(self.bin), "BAYPLAN_CACHE": str(directory / "cache")}
        self.said: list[str] = []

    def install_go(self, version: str) -> None:
        (self.bin / "go").write_text(FAKE_GO)
        (self.bin / "go").chmod(0o755)
        (self.bin / "version").write_text(version)

    def builds(self) -> list[str]:
        log = self.bin / "builds"
        return log.read_text().splitlines() if log.exists() else []

    def find_or_build(self) -> Path:
        return find_or_build(self.env, say=self.said.append)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_version_is_read_from_go_mod() -> None:
    assert f"k8s.io/kubernetes {kubernetes_version()}\n" in (MODULE / "go.mod").read_text()


def test_given_binaries_are_used(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).touch(0o755)

    assert find_or_build({"BAYPLAN_KUBE_BIN": str(tmp_path)}) == tmp_path


def test_given_binaries_that_are_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "etcd").touch(0o755)

    with pytest.raises(BinariesMissing, match="no executable kube-apiserver, kube-scheduler"):
        find_or_build({"BAYPLAN_KUBE_BIN": str(tmp_path)})


def test_without_go_one_sentence_says_what_to_do(machine: Machine) -> None:
    with pytest.raises(BinariesMissing, match=r"no Go to build them: .*BAYPLAN_KUBE_BIN") as error:
        machine.find_or_build()

    assert "\n" not in str(error.value)


def test_an_old_go_is_too_old(machine: Machine) -> None:
    machine.install_go("go1.9.7")

    with pytest.raises(BinariesMissing, match=r"Go 1\.\S+ or newer .* \(found 1\.9\.7\)"):
        machine.find_or_build()


def test_an_old_go_that_must_not_fetch_another_says_so(machine: Machine) -> None:
    machine.install_go("go1.24.1")
    refusal = "go: go.mod requires go >= 1.26.0 (running go 1.24.1; GOTOOLCHAIN=local)"
    (machine.bin / "go").write_text(f"#!/bin/sh\necho '{refusal}' >&2\nexit 1\n")

    with pytest.raises(BinariesMissing, match="GOTOOLCHAIN=local"):
        machine.find_or_build()


def test_binaries_are_built_once(machine: Machine) -> None:
    machine.install_go("go99.1")

    first, second = machine.find_or_build(), machine.find_or_build()

    assert first == second == cache_directory(machine.env)
    assert sorted(path.name for path in first.iterdir()) == sorted(NAMES)
    [build] = machine.builds()
    assert build.startswith("0 -s -w ")
    assert f"gitVersion={kubernetes_version()}" in build
    [line] = machine.said
    assert line.startswith("building etcd, kube-apiserver and kube-scheduler v1.")
    assert line.endswith(str(first))


def test_a_damaged_cache_is_built_again(machine: Machine) -> None:
    machine.install_go("go99.1")
    (machine.find_or_build() / "etcd").unlink()

    assert (machine.find_or_build() / "etcd").exists()


def test_a_build_that_fails_leaves_nothing_in_the_cache(machine: Machine) -> None:
    machine.install_go("go99.1")
    (machine.bin / "broken").touch()

    with pytest.raises(BuildFailed, match="no such package"):
        machine.find_or_build()

    cache = cache_directory(machine.env).parent
    assert [path.name for path in cache.iterdir()] == [".lock"]


def test_two_runs_do_not_build_at_once(machine: Machine) -> None:
    machine.install_go("go99.1")
    cache = cache_directory(machine.env).parent
    cache.mkdir(parents=True)
    found: list[Path] = []
    second = threading.Thread(target=lambda: found.append(machine.find_or_build()))

    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second.start()
        wait_until(lambda: machine.said, 20, what="the second run waits")
        assert machine.builds() == []
    second.join()

    assert machine.said[0].startswith("waiting for another run")
    assert found == [cache_directory(machine.env)]


@pytest.mark.parametrize("changed", ["go.mod", "go.sum", "cmd/etcd/main.go"])
def test_other_sources_mean_another_directory(tmp_path: Path, changed: str) -> None:
    shutil.copytree(MODULE, tmp_path, dirs_exist_ok=True)
    env = {"BAYPLAN_CACHE": "/cache"}
    before = cache_directory(env, tmp_path)
    assert before == cache_directory(env)

    with (tmp_path / changed).open("a") as source:
        source.write("\n// changed\n")

    assert cache_directory(env, tmp_path) != before


def test_the_command_prints_the_directory(machine: Machine) -> None:
    machine.install_go("go99.1")

    run = subprocess.run(
        [sys.executable, "-m", "tests.controlplane.binaries"],
        cwd=ROOT,
        env=machine.env,
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout == f"{cache_directory(machine.env)}\n"
    assert "from source" in run.stderr


@pytest.mark.parametrize(
    ("env", "outcome"),
    [
        pytest.param({}, "2 skipped", id="are skipped"),
        pytest.param({"CI": "true"}, "2 errors", id="fail in CI"),
        pytest.param({"BAYPLAN_REQUIRE_E2E": "1"}, "2 errors", id="fail when required"),
    ],
)
def test_without_binaries_end_to_end_tests(
    machine: Machine, tmp_path: Path, env: dict[str, str], outcome: str
) -> None:
    test = tmp_path / "test_one.py"
    test.write_text("def test_one(cluster): pass\n\ndef test_two(control_plane): pass\n")

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", *OUR_FIXTURES_ALONE, str(test)],
        cwd=ROOT,
        env={**machine.env, **env},
        capture_output=True,
        text=True,
        check=False,
    )

    assert outcome in run.stdout
    assert "no Kubernetes binaries, and no Go to build them" in run.stdout
    assert run.stdout.count("SKIPPED [2] ") == outcome.count("skipped")
