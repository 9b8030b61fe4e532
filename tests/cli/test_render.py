"""What commands print."""

import io

import pytest
from rich.table import Table
from rich.text import Text

from bayplan.cli.render import console, folded

TITLE = "a\x1b]0;mine\x07b\x9b2Jc"


@pytest.mark.parametrize("kind", ["text", "markup", "table"])
def test_a_terminal_obeys_our_colours_and_nobody_elses(kind: str) -> None:
    """Names and reasons in a recording are other people's words."""
    out = console()
    out.file, out._force_terminal = io.StringIO(), True
    table = Table("pod", box=None)
    table.add_row(TITLE)
    out.print({"text": Text(TITLE, style="bold"), "markup": f"[red]{TITLE}[/red]", "table": table}[kind])

    said = out.file.getvalue()
    assert "\x1b]" not in said
    assert "\x9b" not in said
    assert "]0;mine" in said
    assert ("\x1b[" in said) == bool(out.color_system)


def test_a_narrow_terminal_cuts_no_names_off() -> None:
    out = console()
    out.file, out.width = io.StringIO(), 30
    table = folded(["policy", "hook", "where"])
    table.add_row("ResourceLimits", "a-hook-of-many-letters", "a-long-name.yaml:1234")
    out.print(table)

    lines = out.file.getvalue().splitlines()
    cells = ["".join(line[start:end].strip() for line in lines[1:]) for start, end in columns(lines[0])]
    assert cells == ["ResourceLimits", "a-hook-of-many-letters", "a-long-name.yaml:1234"]


def columns(heading: str) -> list[tuple[int, int | None]]:
    """Where each column begins and ends."""
    starts = [heading.index(word) for word in heading.split()]
    return list(zip(starts, [*starts[1:], None], strict=True))
