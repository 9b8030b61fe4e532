"""Figures go where the command line says, with the machine and the command that made them."""

import json
from pathlib import Path

import pytest

from bench.outputs import Outputs, rows
from bench.report import END, START

PAGE = f"# A page\n\n{START}\n\nold\n\n{END}\n\nThe end.\n"


def test_a_page_gets_the_table_the_picture_and_who_made_them(tmp_path: Path) -> None:
    page, picture, figures = tmp_path / "some.md", tmp_path / "some.svg", tmp_path / "some.json"
    page.write_text(PAGE)
    arguments = ["--quick", f"--docs={page}", f"--plot={picture}", f"--json={figures}"]

    outputs = Outputs("measures", arguments, quick="less")
    outputs.keep({"parts": [1]})
    outputs.finish(rows(["a"], [["1"]]), "<svg/>", caption="how much")

    said = page.read_text()
    assert outputs.quick
    assert f"Made by `{outputs.command}` on " in said
    assert outputs.command.endswith(" --quick")
    assert "![how much](some.svg)\n\n| a |\n| --- |\n| 1 |" in said
    assert "old" not in said
    assert said.endswith("The end.\n")
    assert picture.read_text() == "<svg/>"
    assert json.loads(figures.read_text())["parts"] == [1]


def test_a_page_without_a_place_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "some.md").write_text("# A page\n")

    with pytest.raises(SystemExit):
        Outputs("measures", [f"--docs={tmp_path / 'some.md'}"], quick="less")

    assert f"some.md has no line {START}" in capsys.readouterr().err
