"""The image: what its Dockerfile says, what is in it, and that it runs as Kubernetes will run it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bayplan
from bayplan.install.container import BAYPLAN
from bayplan.install.values import Values
from deploy.image.sbom import bill_of_materials
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.install.dockerfile import DOCKERFILE, ROOT, stages
from tests.install.image_root import ImageRoot, build, in_context, require_root

BEFORE, (BUILD, IMAGE) = stages(DOCKERFILE.read_text())
SBOM = "/opt/bayplan/sbom.cdx.json"
EXAMPLE = ROOT / "examples" / "01-label-filter"
USER = IMAGE.one("USER").text
PINNED = dict(
    re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text().lower().replace("_", "-"), re.M)
)


def test_the_base_is_named_by_an_argument_and_has_a_version() -> None:
    (argument,) = [one.text for one in BEFORE if one.keyword == "ARG"]

    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.14-slim-\w+", argument)
    assert {BUILD.base, IMAGE.base} == {"${PYTHON_IMAGE}"}


def test_it_runs_as_the_user_that_pods_are_rendered_with() -> None:
    context = Values().pod_security_context

    assert f"{context['runAsUser']}:{context['runAsGroup']}" == USER


def test_it_starts_the_program_that_pods_are_rendered_with_and_no_shell() -> None:
    tree: Any = BAYPLAN.tree

    assert IMAGE.one("ENTRYPOINT").words == tree["command"]
    assert IMAGE.one("CMD").words == ["--help"]
    assert IMAGE.all("RUN") == []


def test_health_is_left_to_the_probes() -> None:
    assert IMAGE.one("HEALTHCHECK").text == "NONE"


def test_nothing_is_fetched_by_address_and_no_step_knows_an_architecture() -> None:
    text = "\n".join(one.text for stage in (BUILD, IMAGE) for one in stage.instructions)

    assert not BUILD.all("ADD") + IMAGE.all("ADD")
    assert not re.search(r"https?://|curl|wget|amd64|arm64|x86|aarch|--platform|:latest", text)


def test_the_labels_have_the_version_and_leave_the_source_to_the_builder() -> None:
    labels = {name.rpartition(".")[2]: value for name, value in IMAGE.pairs("LABEL").items()}
    arguments = IMAGE.pairs("ARG")

    assert arguments == {"VERSION": bayplan.__version__, "REVISION": "", "SOURCE": ""}
    assert BUILD.pairs("ARG") == {"VERSION": bayplan.__version__}
    assert labels["title"] == "bayplan"
    assert labels["licenses"] == "Apache-2.0"
    assert (labels["version"], labels["revision"], labels["source"]) == (
        "${VERSION}",
        "${REVISION}",
        "${SOURCE}",
    )
    assert labels["description"]


@pytest.mark.parametrize(
    ("name", "let"),
    [
        pytest.param("src/bayplan/cli/main.py", True, id="the program"),
        pytest.param("constraints.txt", True, id="the versions"),
        pytest.param("deploy/image/sbom.py", True, id="what writes the bill"),
        pytest.param("deploy/image/Dockerfile", False, id="the Dockerfile"),
        pytest.param("src/bayplan.egg-info/PKG-INFO", False, id="what an editable install left"),
        pytest.param("src/bayplan/cli/__pycache__/main.cpython-311.pyc", False, id="compiled files"),
        pytest.param(".git/config", False, id="history"),
        pytest.param("tests/install/test_image.py", False, id="tests"),
    ],
)
def test_only_what_is_needed_is_sent_to_the_builder(name: str, let: bool) -> None:
    assert in_context(ROOT / name) == let


def test_the_bill_of_materials_has_every_dependency_with_the_pinned_version_and_a_licence() -> None:
    bill = bill_of_materials("bayplan[cel,otel]", sys.path)

    found = {part["name"].lower().replace("_", "-"): part for part in bill["components"]}
    assert {"aiohttp", "numpy", "uvloop", "multidict", "cel-expr-python", "protobuf"} <= set(found)
    assert {"pytest", "mypy", "cryptography", "packaging"} & set(found) == set()
    assert {name: part["version"] for name, part in found.items()} == {name: PINNED[name] for name in found}
    assert [name for name, part in found.items() if not part["licenses"]] == []
    assert bill["metadata"]["component"]["version"] == bayplan.__version__
    assert bill_of_materials("bayplan[cel,otel]", sys.path) == bill


def test_the_bill_of_materials_knows_who_needs_whom() -> None:
    bill = bill_of_materials("bayplan", sys.path)

    needs = {one["ref"].partition("@")[0]: one["dependsOn"] for one in bill["dependencies"]}
    assert f"pkg:pypi/multidict@{PINNED['multidict']}" in needs["pkg:pypi/aiohttp"]
    assert "pkg:pypi/protobuf" not in needs


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> ImageRoot:
    """What the steps of the Dockerfile make, run word for word."""
    require_root()
    return build(tmp_path_factory.mktemp("image"))


def inside(image: ImageRoot, *argv: str, volumes: dict[str, Path] | None = None) -> list[str]:
    return image.command(argv, user=USER, read_only=True, volumes=volumes or {})


def said(image: ImageRoot, *argv: str, volumes: dict[str, Path] | None = None) -> str:
    command = inside(image, *argv, volumes=volumes)
    ended = subprocess.run(
        command, env=image.environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.e2e
@pytest.mark.big
@pytest.mark.timeout(600)
class TestBuilt:
    """Needs root, for a root of its own, and a package index; no control plane."""

    def test_it_says_its_version_as_a_user_without_a_home_on_a_read_only_root(self, image: ImageRoot) -> None:
        (program,) = IMAGE.one("ENTRYPOINT").words

        assert said(image, program, "--version") == f"bayplan, version {bayplan.__version__}\n"

    def test_the_root_can_indeed_not_be_written(self, image: ImageRoot) -> None:
        code = (
            "import errno, pathlib\n"
            "for place in ('/opt/bayplan/x', '/x', '/etc/x', '/usr/x'):\n"
            "    try: pathlib.Path(place).touch()\n"
            "    except OSError as error: print(errno.errorcode[error.errno])\n"
            "pathlib.Path('/tmp/x').touch()"
        )

        # The kernel says EROFS even to those who might not write there anyway.
        assert said(image, "python", "-c", code).split() == ["EROFS"] * 4

    def test_the_pause_of_old_clusters_finds_python(self, image: ImageRoot) -> None:
        found = said(image, "python", "-c", "import sys; print(sys.prefix)")

        assert found == "/opt/bayplan\n"

    def test_there_is_no_installer_and_no_tool_of_the_tests_in_it(self, image: ImageRoot) -> None:
        code = "import importlib.metadata as m; print(*sorted(d.name.lower() for d in m.distributions()))"
        names = said(image, "python", "-c", code).replace("_", "-").split()
        bill = json.loads((image.folder / SBOM.lstrip("/")).read_text())

        listed = {part["name"].lower().replace("_", "-"): part["version"] for part in bill["components"]}
        assert names == sorted([*listed, "bayplan"])
        assert listed == {name: PINNED[name] for name in listed}

    def test_everything_is_compiled_and_belongs_to_nobody_who_runs_it(self, image: ImageRoot) -> None:
        package = next((image.folder / "opt/bayplan/lib").glob("python3*/site-packages/bayplan"))
        sources = [path for path in package.rglob("*.py") if "starters" not in path.parts]

        assert len(sources) > 100
        assert [
            p for p in sources if not list((p.parent / "__pycache__").glob(f"{p.stem}.cpython-*.pyc"))
        ] == []
        assert [p for p in package.rglob("*") if p.lstat().st_uid != 0 or p.stat().st_mode & 0o022] == []

    def test_expressions_and_traces_are_in_it(self, image: ImageRoot) -> None:
        said(image, "python", "-c", "import cel_expr_python, opentelemetry.sdk.trace, uvloop")

    def test_it_checks_the_example(self, image: ImageRoot) -> None:
        assert "has_label" in said(
            image, "bayplan", "check", "/etc/bayplan/policy.py", volumes={"/etc/bayplan": EXAMPLE}
        )

    def test_it_serves_and_is_ready(self, image: ImageRoot, served: int) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{served}/readyz", timeout=5) as answer:
            assert answer.status == 200


@pytest.fixture
def served(image: ImageRoot, tmp_path: Path) -> Iterator[int]:
    """The server in the image; where it says how it is."""
    listen, ops = free_port(), free_port()
    arguments = [f"--listen=127.0.0.1:{listen}", f"--ops-listen=127.0.0.1:{ops}", "--page-listen=off"]
    argv = inside(
        image, "bayplan", "serve", "/etc/bayplan/policy.py", *arguments, volumes={"/etc/bayplan": EXAMPLE}
    )
    child = Child("bayplan in the image", argv, log=tmp_path / "serve.log", env=image.environment)
    try:
        child.wait_until(lambda: f"127.0.0.1:{ops}" in child.log(), 30)
        yield ops
    finally:
        child.stop()
    assert child.exit_code == 0, child.log_tail()
