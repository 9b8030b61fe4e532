"""What a command prints in a terminal, as an SVG: text and colours, and no font from elsewhere."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

_COLUMNS = 88
# Dark on any page: it looks like the terminal that it is, and has a rim where the page is dark too.
_THEME = TerminalTheme(
    (22, 27, 34),
    (201, 209, 217),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)
# Rich's own format loads a font from the web; each text has its width, so any font of the reader's will do.
_FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
}}
rect.paper {{ width: calc(100% - 2px); height: calc(100% - 2px); fill: #161b22; stroke: #30363d; }}
{styles}
</style>
<defs>{lines}</defs>
<rect class="paper" x="1" y="1" rx="8" stroke-width="2"/>
<g class="{unique_id}-matrix" transform="translate({terminal_x}, 14)">{backgrounds}{matrix}</g>
</svg>
"""


def printed(argv: Sequence[str | Path]) -> str:
    """What the command prints where it believes to be in a terminal."""
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(_COLUMNS), "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, env=env)
    return ended.stdout


def picture(command: str, output: str) -> str:
    """The command as it was typed, and what it printed, as an SVG."""
    paper = Console(record=True, file=io.StringIO(), width=_COLUMNS, force_terminal=True, highlight=False)
    paper.print(Text.assemble(("$ ", "dim"), (command, "bold")))
    paper.print(Text.from_ansi(output.rstrip("\n")), soft_wrap=True)
    return paper.export_svg(title="", theme=_THEME, code_format=_FORMAT, unique_id="why")
