"""The three Kubernetes programs: found where the environment says, in the cache, or built.

``BAYPLAN_KUBE_BIN=DIR`` names a directory with ready binaries. Otherwise they live in
``$BAYPLAN_CACHE`` (or the user's cache directory), under the version and a hash of what they
are built from, so that a changed ``go.mod`` never meets old binaries.

``python -m tests.controlplane.binaries`` builds them if need be and prints the directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

NAMES = ("etcd", "kube-apiserver", "kube-scheduler")
MODULE = Path(__file__).parent / "kube"

_WAY_OUT = "or set BAYPLAN_KUBE_BIN to a directory with " + ", ".join(NAMES)

Say = Callable[[str], None]


class BinariesMissing(RuntimeError):
    """There are no binaries and no way to build them here; the message is one sentence."""


class BuildFailed(RuntimeError):
    """Go is there, but the build did not succeed."""


def say_on_stderr(line: str) -> None:
    """Print what takes long while it happens."""
    print(line, file=sys.stderr, flush=True)


def find_or_build(
    env: Mapping[str, str] = os.environ, module: Path = MODULE, *, say: Say = say_on_stderr
) -> Path:
    """The directory that holds all of `NAMES`."""
    if given := env.get("BAYPLAN_KUBE_BIN"):
        return _given(Path(given).expanduser())
    directory = cache_directory(env, module)
    if not missing_in(directory):
        return directory
    go = _check_go(env, module)
    with _lock(directory.parent, say=say):
        # Somebody else may have built them while we waited for the lock.
        if missing_in(directory):
            _build(go, module, directory=directory, env=env, say=say)
    return directory


def kubernetes_version(module: Path = MODULE) -> str:
    """The version of Kubernetes that `module` requires, as in ``v1.36.4``."""
    return _in_go_mod(module, r"^\s*k8s\.io/kubernetes (v\S+)$")


def cache_directory(env: Mapping[str, str], module: Path = MODULE) -> Path:
    """Where the binaries built from `module` are, or will be."""
    cache = env.get("BAYPLAN_CACHE") or env.get("XDG_CACHE_HOME") or "~/.cache"
    digest = hashlib.sha256(" ".join(_build_flags(module)).encode())
    for source in [module / "go.mod", module / "go.sum", *sorted(module.glob("cmd/*/main.go"))]:
        digest.update(source.read_bytes())
    name = f"{kubernetes_version(module)}-{digest.hexdigest()[:12]}"
    return Path(cache).expanduser() / "bayplan" / "kube" / name


def missing_in(directory: Path) -> list[str]:
    """Those of `NAMES` that `directory` lacks."""
    return [name for name in NAMES if not os.access(directory / name, os.X_OK)]


def _given(directory: Path) -> Path:
    if missing := missing_in(directory):
        raise BinariesMissing(f"BAYPLAN_KUBE_BIN={directory} has no executable {', '.join(missing)}")
    return directory


def _check_go(env: Mapping[str, str], module: Path) -> str:
    """The path of a `go` that is new enough, or one that fetches a newer one by itself."""
    wanted = _in_go_mod(module, r"^go (\S+)$")
    go = shutil.which("go", path=env.get("PATH"))
    if go is None:
        raise BinariesMissing(
            f"no Kubernetes binaries, and no Go to build them: install Go {wanted}, {_WAY_OUT}"
        )
    # Inside the module, so that GOTOOLCHAIN=auto has switched to the newer Go already.
    asked = subprocess.run(
        [go, "env", "GOVERSION"], cwd=module, env=dict(env), capture_output=True, text=True, check=False
    )
    found = asked.stdout.strip().removeprefix("go")
    if asked.returncode != 0 or _numbers(found) < _numbers(wanted):
        said = " ".join(asked.stderr.split()) or f"found {found or 'none'}"
        raise BinariesMissing(
            f"Go {wanted} or newer is needed to build the Kubernetes binaries ({said}): "
            f"install it, {_WAY_OUT}"
        )
    return go


@contextmanager
def _lock(directory: Path, *, say: Say) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another run that builds the Kubernetes binaries")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(go: str, module: Path, *, directory: Path, env: Mapping[str, str], say: Say) -> None:
    say(
        f"building etcd, kube-apiserver and kube-scheduler {kubernetes_version(module)} from "
        f"source: some minutes the first time, then cached in {directory}"
    )
    with tempfile.TemporaryDirectory(prefix=".building-", dir=directory.parent) as temporary:
        built = Path(temporary) / "bin"
        built.mkdir()
        run = subprocess.run(
            [go, "build", *_build_flags(module), "-o", f"{built}/", "./cmd/..."],
            cwd=module,
            env={**env, "CGO_ENABLED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if run.returncode != 0 or missing_in(built):
            tail = "\n".join(run.stdout.splitlines()[-20:])
            raise BuildFailed(f"go build in {module} ended with {run.returncode}\n{tail}")
        # An incomplete directory was damaged by hand; a rename needs it out of the way.
        shutil.rmtree(directory, ignore_errors=True)
        built.rename(directory)


def _build_flags(module: Path) -> list[str]:
    # Unstamped, the API server's compatibility checks see v0.0.0 and refuse to start.
    version = kubernetes_version(module)
    major, minor = version.removeprefix("v").split(".")[:2]
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    variables = [f"-X k8s.io/component-base/version.{key}={stamps[key]}" for key in stamps]
    return ["-trimpath", "-ldflags", " ".join(["-s", "-w", *variables])]


def _in_go_mod(module: Path, pattern: str) -> str:
    found = re.search(pattern, (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildFailed(f"{module / 'go.mod'} has no line like {pattern}")
    return found[1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def main() -> None:
    """Print the directory, after building what it lacks."""
    try:
        print(find_or_build())
    except (BinariesMissing, BuildFailed) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
