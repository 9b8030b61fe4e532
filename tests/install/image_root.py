"""The steps of the Dockerfile without Docker: a root folder for each stage, entered with ``chroot``.

The base is this machine's own programs and Python, mounted read-only, in a mount namespace that ends with the
program; or those of another root folder, such as an unpacked Debian with Python 3.14, which the variable
``BAYPLAN_IMAGE_BASE`` names. ``FROM``, layers, labels and registries are Docker's, and are not tried here.
"""

from __future__ import annotations

import fnmatch
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.install.dockerfile import DOCKERFILE, ROOT, Instruction, Stage, stages

_PROGRAMS = ("usr", "bin", "sbin", "lib", "lib64")
_SETTINGS = ("etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.conf.d", "etc/nsswitch.conf")
_NETWORK = ("etc/hosts", "etc/resolv.conf", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")
_PATH = "/base/bin:/usr/bin:/bin"
_CHROOT, _UNSHARE = (
    shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin") or name for name in ("chroot", "unshare")
)
_BUILD_SECONDS = 240


def require_root() -> None:
    """Skip where nobody may mount: that takes root and a kernel that allows it."""
    tried = [_UNSHARE, "--mount", "true"]
    if (
        os.geteuid() != 0
        or shutil.which(_UNSHARE) is None
        or subprocess.run(tried, check=False, capture_output=True).returncode
    ):
        pytest.skip("the steps of the Dockerfile are run in a root of their own: needs root and `unshare`")


class ImageRoot:
    """The file system of a stage, as far as this machine can make it."""

    def __init__(self, folder: Path, stage: Stage) -> None:
        """Make the folder, with the base's settings and mount points."""
        self.folder = folder
        self.stage = stage
        self._base = Path(os.environ.get("BAYPLAN_IMAGE_BASE", "/"))
        self._python = _base_python(self._base)
        # Made by an administrator for everybody, whatever umask the tests have.
        for name in ("tmp", "proc", "dev", "base/bin", "etc"):
            _folder(folder, name)
        self._mounts = [name for name in _PROGRAMS if (self._base / name).is_dir()]
        if self._base == Path("/") and not sys.base_prefix.startswith("/usr"):
            self._mounts.append(sys.base_prefix.lstrip("/"))
        for name in self._mounts:
            _folder(folder, name)
        for names, source in ((_SETTINGS, self._base), (_NETWORK, Path("/"))):
            for name in names:
                _copy(source / name, folder / name)
        wrapper = folder / "base" / "bin" / "python"
        wrapper.write_text(f'#!/bin/sh\nexec {self._python} "$@"\n')
        wrapper.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """What the stage sets, over a base with the usual PATH."""
        found = {"PATH": _PATH, "HOME": "/"}
        for name, value in self.stage.pairs("ENV").items():
            found[name] = value.replace("${PATH}", _PATH)
        return found

    def command(
        self,
        argv: Sequence[str],
        *,
        user: str = "0:0",
        read_only: bool = False,
        volumes: Mapping[str, Path] = {},
    ) -> list[str]:
        """How to run a program in this root; ``volumes`` are folders of ours, by their path inside."""
        inside = self.folder
        lines = [f"mount --bind {inside} {inside}"]
        lines += [f"mount --bind -o ro {self._base / name} {inside / name}" for name in self._mounts]
        lines += [f"mount --rbind /{name} {inside / name}" for name in ("dev", "proc")]
        lines += [f"mount -t tmpfs -o mode=1777 tmpfs {inside / 'tmp'}"]
        for path, source in volumes.items():
            target = _folder(inside, path.lstrip("/"))
            lines.append(f"mount --bind -o ro {source} {target}")
        if read_only:
            lines.append(f"mount -o remount,ro,bind {inside}")
        groups = user.partition(":")[2]
        lines.append(f"exec {_CHROOT} --userspec={user} --groups={groups} {inside} {shlex.join(argv)}")
        return [_UNSHARE, "--mount", "--propagation", "private", "sh", "-ec", "\n".join(lines)]

    def run(self, one: Instruction, *, workdir: str, arguments: Mapping[str, str]) -> None:
        """A ``RUN``, word for word."""
        shell = ["/bin/sh", "-ec", f"cd {workdir}\n{one.text}"]
        outside = {
            k: v for k, v in os.environ.items() if k.startswith("PIP_") or k.lower().endswith("_proxy")
        }
        ended = subprocess.run(
            self.command(shell),
            env={**outside, **self.environment, **arguments},
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, f"RUN {one.text}\n{ended.stdout}{ended.stderr}"


def build(folder: Path) -> ImageRoot:
    """Both stages, step by step; the second one's root."""
    _, (first, second) = stages(DOCKERFILE.read_text())
    made = {first.name: ImageRoot(folder / "build", first)}
    last = ImageRoot(folder / "image", second)
    for root in (made[first.name], last):
        workdir = "/"
        for one in root.stage.instructions:
            match one.keyword:
                case "WORKDIR":
                    workdir = one.text
                    _folder(root.folder, workdir.lstrip("/"))
                case "COPY":
                    _copy_step(one, root.folder, workdir, made)
                case "RUN":
                    root.run(one, workdir=workdir, arguments=root.stage.pairs("ARG"))
    return last


def in_context(path: Path) -> bool:
    """Whether ``.dockerignore`` lets a file of the project through."""
    name = str(path.relative_to(ROOT))
    steps = [name, *(str(parent.relative_to(ROOT)) for parent in path.parents if parent.is_relative_to(ROOT))]
    let = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.lstrip("!").removeprefix("**/")
        if line and not line.startswith("#") and any(_matches(step, pattern, line) for step in steps):
            let = line.startswith("!")
    return let


def _matches(step: str, pattern: str, line: str) -> bool:
    if line.startswith("**/"):
        return fnmatch.fnmatch(step.rpartition("/")[2], pattern)
    return step != "." and fnmatch.fnmatch(step, pattern) and step.count("/") == pattern.count("/")


def _copy_step(one: Instruction, root: Path, workdir: str, made: Mapping[str, ImageRoot]) -> None:
    words = one.text.split()
    origin = ROOT
    if words[0].startswith("--from="):
        origin = made[words.pop(0).partition("=")[2]].folder
    *sources, target = words
    into = root / str(Path(workdir) / target).lstrip("/")
    for source in sources:
        found = origin / source.lstrip("/")
        to_folder = target.endswith("/")
        _copy(found, into / found.name if to_folder else into, from_context=origin == ROOT)


def _copy(source: Path, target: Path, *, from_context: bool = False) -> None:
    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if from_context and not in_context(Path(folder, name))]

    if source.is_dir():
        # Links stay links, as they do for Docker.
        shutil.copytree(source, target, symlinks=True, ignore=left_out, dirs_exist_ok=True)
    elif source.is_file():
        assert not from_context or in_context(source), f"{source.name} is not let through by .dockerignore"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _folder(root: Path, name: str) -> Path:
    path = root
    for part in Path(name).parts:
        path = path / part
        path.mkdir(exist_ok=True, parents=True)
        path.chmod(0o755)
    return path


def _base_python(base: Path) -> str:
    if base == Path("/"):
        return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    newest = sorted(base.glob("usr/bin/python3.[0-9][0-9]"))[-1]
    return f"/{newest.relative_to(base)}"
