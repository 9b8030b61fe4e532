"""The Helm chart, made from the same trees that ``bayplan render`` fills in: ``make chart``.

Made are the templates of all objects, ``values.yaml``, its schema, the table of the README, and the copies of
dashboard and alerts, which Helm must find inside the chart. Written by hand are ``_helpers.tpl``, the notes,
the tests, and what only a chart has.
"""

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from bayplan import __version__
from bayplan.install.documents import DOCUMENTS
from bayplan.install.evaluate import to_yaml
from bayplan.install.helm import print_condition, print_template
from bayplan.install.names import CHART
from bayplan.install.tree import All, AsText, Digest, Merged, Shared, Tree, When
from bayplan.install.values import Values
from bayplan.install.versions import NEWEST, OLDEST

_MADE = "Made by `make chart` from src/bayplan/install: edit there."
_TABLE_BEGINS, _TABLE_ENDS = "<!-- values: made by `make chart` -->", "<!-- end of values -->"
_COPIES = {
    "files/dashboard.json": "grafana/bayplan.json",
    "files/rules.yaml": "prometheus/bayplan-rules.yaml",
}


def chart_files(directory: Path) -> dict[str, str]:
    """Everything in the chart that is made, by its path; ``directory`` is ``deploy/helm/bayplan``."""
    deploy = directory.parents[1]
    return {
        "Chart.yaml": _chart(),
        "values.yaml": f"# {_MADE}\n" + "".join(_values(Values, indent=0)),
        "values.schema.json": _schema(),
        "README.md": _readme((directory / "README.md").read_text()),
        "templates/_shared.tpl": _shared(),
        **{f"templates/{name}": text for name, text in _templates()},
        **{name: (deploy / source).read_text() for name, source in _COPIES.items()},
    }


def _chart() -> str:
    return to_yaml(
        {
            "apiVersion": "v2",
            "name": CHART,
            "description": "Kubernetes scheduling policy, in Python: a scheduler extender, or a scheduler.",
            "type": "application",
            "version": __version__,
            "appVersion": __version__,
            "kubeVersion": f">=1.{OLDEST}.0-0 <1.{NEWEST + 1}.0-0",
            "keywords": ["scheduler", "extender", "scheduling", "policy"],
        }
    )


def _templates() -> Iterator[tuple[str, str]]:
    for name, documents in groupby(DOCUMENTS, key=lambda document: document.template):
        text = f"{{{{- /* {_MADE} */}}}}\n"
        for document in documents:
            always = document.when.conditions == () if isinstance(document.when, All) else False
            body = "---\n" + print_template(document.tree)
            text += (
                body if always else f"{{{{- if {print_condition(document.when)} }}}}\n{body}{{{{- end }}}}\n"
            )
        yield name, text


def _shared() -> str:
    """The trees that stand in several places, each under its name."""
    found = {node.name: node for document in DOCUMENTS for node in _walk(document.tree)}
    text = f"{{{{- /* {_MADE} */}}}}\n"
    for name, node in sorted(found.items()):
        text += f'{{{{- define "bayplan.{name}" -}}}}\n{print_template(node.tree)}{{{{- end }}}}\n'
    return text


def _walk(tree: Tree) -> Iterator[Shared]:
    inner: list[Tree] = []
    match tree:
        case dict():
            inner = list(tree.values())
        case list() | tuple():
            inner = list(tree)
        case Shared():
            yield tree
            inner = [tree.tree]
        case When():
            inner = [tree.then, tree.otherwise]
        case AsText():
            inner = [tree.tree]
        case Merged():
            inner = list(tree.layers)
        case Digest():
            inner = list(tree.trees)
    for each in inner:
        yield from _walk(each)


def _fields(kind: type[msgspec.Struct]) -> Iterator[tuple[str, Any, str]]:
    """Each value of a section: its name, its default, and what it means."""
    hints = get_type_hints(kind, include_extras=True)
    made = kind()
    for field in msgspec.structs.fields(kind):
        yield field.encode_name, getattr(made, field.name), hints[field.name].__metadata__[0].description


def _values(kind: type[msgspec.Struct], *, indent: int) -> Iterator[str]:
    pad = " " * indent
    for name, value, meaning in _fields(kind):
        yield f"{pad}# {meaning}\n"
        if isinstance(value, msgspec.Struct):
            yield f"{pad}{name}:\n"
            yield from _values(type(value), indent=indent + 2)
        else:
            yield from (f"{pad}{line}\n" for line in to_yaml({name: value}).splitlines())


def _schema() -> str:
    schema = msgspec.json.schema(Values)
    # Helm hands a chart the values that it shares with others.
    schema["$defs"]["Values"]["properties"]["global"] = {"type": "object"}
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, indent=2) + "\n"


def _rows(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    for name, value, meaning in _fields(kind):
        if isinstance(value, msgspec.Struct):
            yield from _rows(type(value), f"{prefix}{name}.")
        else:
            yield f"| `{prefix}{name}` | `{json.dumps(value)}` | {meaning} |\n"


def _readme(text: str) -> str:
    before, _, rest = text.partition(_TABLE_BEGINS)
    after = rest.partition(_TABLE_ENDS)[2]
    table = "| value | default | meaning |\n|---|---|---|\n" + "".join(_rows(Values))
    return f"{before}{_TABLE_BEGINS}\n{table}{_TABLE_ENDS}{after}"


def main() -> None:
    """Write what is made into the chart's directory."""
    directory = Path(sys.argv[1]).resolve()
    for name, text in chart_files(directory).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
