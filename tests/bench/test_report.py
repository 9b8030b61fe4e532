"""A page gets its figures between two markers, and nothing else of it is touched."""

from pathlib import Path

import pytest

from bench.report import MarkersMissing, check_markers, describe, machine, write_between_markers

PAGE = "# Title\n\nbefore\n\n<!-- figures -->\nold\n<!-- /figures -->\n\nafter\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_what_is_between_the_markers_is_replaced(page: Path) -> None:
    write_between_markers(page, "| new |\n")

    assert page.read_text() == PAGE.replace("\nold\n", "\n\n| new |\n\n")


def test_writing_twice_is_writing_once(page: Path) -> None:
    write_between_markers(page, "first")
    write_between_markers(page, "second")
    after = page.read_text()
    write_between_markers(page, "second")

    assert page.read_text() == after
    assert "first" not in after


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        pytest.param("<!-- figures -->", "nothing here\n", id="no markers"),
        pytest.param("<!-- /figures -->", "<!-- figures -->\n", id="no end"),
        pytest.param("<!-- /figures -->", "<!-- /figures -->\n<!-- figures -->\n", id="the wrong way round"),
    ],
)
def test_a_page_without_markers_is_left_as_it_is(marker: str, text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)

    with pytest.raises(MarkersMissing, match=rf"page\.md has no line {marker}: write"):
        write_between_markers(page, "new")
    with pytest.raises(MarkersMissing, match="has no line"):
        check_markers(page)

    assert page.read_text() == text


def test_a_page_that_is_not_there_is_told_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(MarkersMissing, match=r"page\.md is not there: write the page first"):
        check_markers(tmp_path / "page.md")


def test_the_machine_is_described() -> None:
    said = describe(machine())

    assert "cores of" in said
    assert "Python 3." in said
    assert "load before the run" in said


def test_a_machine_without_go_says_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert machine()["go"] is None
    assert "Go" not in describe(machine())
