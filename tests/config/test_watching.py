"""Which files are looked at, and how far around them after a change that could not be used."""

from pathlib import Path

import pytest

from bayplan.authoring.editions import anew
from bayplan.config import watching
from bayplan.config.flags import Flags, load_all
from bayplan.config.watching import WatchedFiles

POLICY = "import bayplan\n\n@bayplan.filter\ndef f(pod, node): ...\n"


@pytest.fixture
def watched(tmp_path: Path) -> WatchedFiles:
    (tmp_path / "policy.py").write_text(POLICY)
    files = [str(tmp_path / "policy.py")]
    with anew():
        return WatchedFiles(files, Flags(), load_all(files, Flags()))


def names(watched: WatchedFiles, folder: Path) -> list[str]:
    return [str(Path(path).relative_to(folder)) for path, _ in watched.fingerprint(widely=True)]


def test_around_it_are_files_that_a_configuration_can_be_made_of(
    watched: WatchedFiles, tmp_path: Path
) -> None:
    seen = ["helper.py", "package/module.py", "profile.yaml"]
    for name in [*seen, "journal.jsonl", ".hidden/x.py", "..data/x.py", "__pycache__/x.py"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    assert names(watched, tmp_path) == sorted([*seen, "policy.py"])
    assert [path for path, _ in watched.fingerprint()] == [str(tmp_path / "policy.py")]


def test_a_folder_of_a_config_map_is_a_link(watched: WatchedFiles, tmp_path: Path) -> None:
    (tmp_path / "..data" / "package").mkdir(parents=True)
    (tmp_path / "..data" / "package" / "module.py").touch()
    (tmp_path / "package").symlink_to(tmp_path / "..data" / "package")

    assert names(watched, tmp_path) == ["package/module.py", "policy.py"]


def test_a_look_around_has_an_end(
    watched: WatchedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_MOST_BESIDE", 10)
    (tmp_path / "circle").symlink_to(tmp_path)
    for number in range(100):
        folder = tmp_path / f"folder-{number:03}"
        folder.mkdir()
        (folder / "x.py").touch()

    assert 1 < len(names(watched, tmp_path)) < 20


def test_a_look_around_has_an_end_within_one_folder_too(
    watched: WatchedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_MOST_BESIDE", 10)
    for number in range(100):
        (tmp_path / f"{number:03}.py").touch()

    assert names(watched, tmp_path) == [*(f"{number:03}.py" for number in range(10)), "policy.py"]
