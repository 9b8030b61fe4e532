"""The pictures that ``make pictures`` takes are there, are shown, and ask nobody for anything."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
README = (ROOT / "README.md").read_text()
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", ["page-light.png", "why.svg"])
def test_the_readme_shows_the_picture(name: str) -> None:
    assert (PICTURES / name).stat().st_size > 1000
    assert f"](docs/pictures/{name})" in README


def test_the_picture_of_a_why_is_text_that_names_the_command_and_the_reason() -> None:
    drawing = ElementTree.fromstring((PICTURES / "why.svg").read_text())

    text = " ".join(
        "".join(part.itertext()).replace("\N{NO-BREAK SPACE}", " ") for part in drawing.iter(f"{SVG}text")
    )

    assert re.search(r"bayplan why pod/\S+ -n demo", text)
    assert "no free GPU" in text
    assert "0 free, 1 needed" in text


def test_the_picture_of_a_why_loads_nothing() -> None:
    drawing = (PICTURES / "why.svg").read_text()

    assert "@font-face" not in drawing
    assert re.findall(r"""(?:href|src)\s*=|url\((?!#)""", drawing) == []
    assert set(re.findall(r"https?://[^/\s\"<:&]+", drawing)) == {"http://www.w3.org", "http://127.0.0.1"}
