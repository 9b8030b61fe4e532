"""``kubectl bayplan``: by pip, and by krew's archive with its launcher."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

import bayplan
from deploy.krew.archive import MANIFEST, NOWHERE, archive, manifest_text
from tests.controlplane.helm_binary import require

BIN = Path(sys.executable).parent
SYSTEM = "/usr/bin:/bin"


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What krew reads, and nothing else."""


class Name(_Strict, frozen=True):
    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9-]+$")]


class Expression(_Strict, frozen=True):
    key: Literal["os", "arch"]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str]


class Selector(_Strict, frozen=True):
    matchExpressions: list[Expression]  # noqa: N815 - krew's word


class Copied(_Strict, frozen=True, rename={"source": "from"}):
    source: str
    to: str


class Platform(_Strict, frozen=True):
    selector: Selector
    uri: Annotated[str, msgspec.Meta(pattern=r"^https://.*\.(tar\.gz|zip)$")]
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
    files: list[Copied]
    bin: str


class Spec(_Strict, frozen=True):
    version: Annotated[str, msgspec.Meta(pattern=r"^v\d+\.\d+\.\d+$")]
    shortDescription: Annotated[str, msgspec.Meta(max_length=50)]  # noqa: N815 - krew's word
    description: str
    caveats: str
    platforms: Annotated[list[Platform], msgspec.Meta(min_length=1)]


class Plugin(_Strict, frozen=True):
    """A manifest of krew, as its API has it, with the fields that we use."""

    apiVersion: Literal["krew.googlecontainertools.github.com/v1alpha2"]  # noqa: N815 - krew's word
    kind: Literal["Plugin"]
    metadata: Name
    spec: Spec


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A folder with what krew would put there."""
    folder = tmp_path / "krew"
    with tarfile.open(fileobj=io.BytesIO(archive())) as tar:
        tar.extractall(folder, filter="data")
    return folder


def kubectl(*arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    home = str(Path(path.partition(":")[0]).parent)
    return subprocess.run(
        [str(require("kubectl")), *arguments],
        env={"PATH": path, "HOME": home},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def only(folder: Path, *programs: str) -> Path:
    """A folder for PATH with links to some programs of the virtual environment."""
    folder.mkdir()
    for name in programs:
        (folder / name).symlink_to(BIN / name)
    return folder


def test_the_manifest_is_one_that_krew_can_read() -> None:
    plugin = msgspec.yaml.decode(MANIFEST.read_bytes(), type=Plugin)

    assert plugin.metadata.name == "bayplan"
    assert plugin.spec.version == f"v{bayplan.__version__}"
    (platform,) = plugin.spec.platforms
    chosen = {one.key: (one.operator, one.values) for one in platform.selector.matchExpressions}
    assert chosen == {"os": ("In", ["darwin", "linux"]), "arch": ("In", ["amd64", "arm64"])}


def test_the_manifest_in_the_project_is_that_of_the_archive() -> None:
    assert MANIFEST.read_text() == manifest_text(NOWHERE, archive()), "run `make kubectl-plugin`"
    assert hashlib.sha256(archive()).hexdigest() in MANIFEST.read_text()


def test_every_file_that_the_manifest_names_is_in_the_archive(unpacked: Path) -> None:
    (platform,) = msgspec.yaml.decode(MANIFEST.read_bytes(), type=Plugin).spec.platforms

    assert {one.source for one in platform.files} == {path.name for path in unpacked.iterdir()}
    assert "LICENSE" in {one.source for one in platform.files}
    assert os.access(unpacked / platform.bin, os.X_OK)


def test_kubectl_lists_the_program_that_pip_installs(tmp_path: Path) -> None:
    programs = only(tmp_path / "bin", "kubectl-bayplan")

    listed = kubectl("plugin", "list", path=f"{programs}:{SYSTEM}")
    said = kubectl("bayplan", "--help", path=f"{programs}:{SYSTEM}")

    assert str(programs / "kubectl-bayplan") in listed.stdout.splitlines(), listed.stderr
    assert said.stdout.startswith("Usage: kubectl bayplan [OPTIONS]")


def test_kubectl_lists_the_launcher_of_krew_which_runs_bayplan(unpacked: Path, tmp_path: Path) -> None:
    path = f"{unpacked}:{only(tmp_path / 'bin', 'bayplan')}:{SYSTEM}"

    assert str(unpacked / "kubectl-bayplan") in kubectl("plugin", "list", path=path).stdout.splitlines()
    assert f"version {bayplan.__version__}" in kubectl("bayplan", "--version", path=path).stdout


def test_arguments_and_exit_codes_pass_through_the_launcher(unpacked: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "bayplan"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n")
    program.chmod(0o755)

    ended = kubectl(
        "bayplan", "why", "pod/two words", "-n", "a*b", path=f"{unpacked}:{program.parent}:{SYSTEM}"
    )

    assert ended.stdout == "<why><pod/two words><-n><a*b>"
    assert ended.returncode == 7


def test_why_is_asked_through_kubectl(unpacked: Path, tmp_path: Path) -> None:
    path = f"{unpacked}:{only(tmp_path / 'bin', 'bayplan')}:{SYSTEM}"

    ended = kubectl("bayplan", "why", "pod/web", "--server", "http://127.0.0.1:9", path=path)

    assert ended.returncode == 1
    assert "127.0.0.1:9" in ended.stderr


def test_without_bayplan_the_launcher_says_how_to_get_it(unpacked: Path) -> None:
    ended = kubectl("bayplan", "why", "pod/web", path=f"{unpacked}:{SYSTEM}")

    assert ended.returncode == 127
    assert "pip install" in ended.stderr
