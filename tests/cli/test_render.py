"""What commands print."""

import io

import pytest
from rich.table import Table
from rich.text import Text

from bayplan.cli.render import console

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
