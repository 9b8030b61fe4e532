"""Policies of other packages, found by the name that they offer them under."""

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.load import load

RACKS = """
    import bayplan

    @bayplan.policy
    class RackAware:
        @bayplan.filter
        def near(self, pod, node):
            return "far away"

    @bayplan.filter
    def loose(pod, node):
        return None
"""


def install(folder: Path, entry_points: str, *, package: str = "acme_racks", code: str = RACKS) -> None:
    """A package as pip would have left it, in a folder that is on the path."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text("from .rules import *\n")
    (folder / package / "rules.py").write_text(dedent(code))
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: 1.0\n"
    )
    info.joinpath("entry_points.txt").write_text(f"[bayplan.policies]\n{entry_points}\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("acme_racks", "other_racks")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("acme_racks.rules:RackAware", id="where it is defined"),
        pytest.param("acme_racks:RackAware", id="where the package offers it"),
        pytest.param("acme_racks : RackAware [extra]", id="with blanks and an extra"),
    ],
)
def test_a_policy_of_a_package_goes_by_the_name_that_it_is_offered_under(folder: Path, target: str) -> None:
    install(folder, f"Racks = {target}")

    (found,) = load("Racks")

    assert found.name == "Racks"
    assert [hook.name for hook in found.make().hooks] == ["near"]


def test_a_function_may_be_offered_too(folder: Path) -> None:
    install(folder, "Racks = acme_racks.rules:loose")

    (found,) = load("Racks")

    assert [hook.name for hook in found.make().hooks] == ["loose"]


def test_only_what_is_named_is_imported(folder: Path) -> None:
    install(folder, "Racks = acme_racks.rules:RackAware")
    install(
        folder, "Other = other_racks.rules:RackAware", package="other_racks", code="raise OSError('imported')"
    )

    load("Racks")
    load("SharedResource")

    assert "other_racks" not in sys.modules


def test_an_entry_point_comes_before_a_module_of_that_name(folder: Path) -> None:
    install(folder, "json = acme_racks.rules:RackAware")

    assert [found.name for found in load("json")] == ["json"]


def test_a_name_that_a_built_in_has_is_an_error_that_names_both(folder: Path) -> None:
    install(folder, "Spread = acme_racks.rules:RackAware")

    with pytest.raises(PolicyError) as error:
        load("Spread")

    assert str(error.value) == (
        "'Spread' is a built-in and also an entry point of package acme-racks;"
        " say which: bayplan.policies.spread:Spread or acme_racks.rules:RackAware"
    )
    assert [found.name for found in load("acme_racks.rules:RackAware")] == ["RackAware"]
    assert [found.name for found in load("bayplan.policies.spread:Spread")] == ["Spread"]


def test_a_name_that_two_packages_offer_is_an_error_that_names_both(folder: Path) -> None:
    install(folder, "Racks = acme_racks.rules:RackAware")
    install(folder, "Racks = other_racks.rules:RackAware", package="other_racks")

    with pytest.raises(PolicyError) as error:
        load("Racks")

    assert str(error.value) == (
        "'Racks' is an entry point of package acme-racks and package other-racks;"
        " say which: acme_racks.rules:RackAware or other_racks.rules:RackAware"
    )


@pytest.mark.parametrize(
    ("entry", "use", "complaint"),
    [
        pytest.param(
            "RackAware = acme_racks.rules:RackAware",
            "RackAwrae",
            r"no policy 'RackAwrae'; did you mean 'RackAware'\?$",
            id="a typo in the configuration",
        ),
        pytest.param(
            "Racks = acme_racks.rules:RackAwrae",
            "Racks",
            r"^Racks is acme_racks.rules:RackAwrae: .*no policy 'RackAwrae' .*did you mean 'RackAware'\?",
            id="a typo in the package",
        ),
        pytest.param(
            "Racks = acme_racks.ruels:RackAware",
            "Racks",
            "^Racks is acme_racks.ruels:RackAware: no policy 'acme_racks.ruels'",
            id="a module that is not there",
        ),
        pytest.param(
            "Racks = acme_racks.rules:RackAware",
            "racks",
            r"no policy 'racks'; did you mean 'Racks'\?",
            id="a small letter",
        ),
    ],
)
def test_what_cannot_be_found_is_an_error(folder: Path, entry: str, use: str, complaint: str) -> None:
    install(folder, entry)

    with pytest.raises(PolicyError, match=complaint):
        load(use)


def test_a_package_that_cannot_be_imported_says_so(folder: Path) -> None:
    install(folder, "Racks = acme_racks.rules:RackAware", code="import a_library_that_nobody_has")

    with pytest.raises(PolicyError, match="it imports 'a_library_that_nobody_has', which is not installed"):
        load("Racks")
