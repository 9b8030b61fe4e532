"""Labels that policies read and that the nodes at hand do not have: most often a typo, or another cluster."""

from collections.abc import Sequence

from bayplan.authoring.registry import Policy
from bayplan.kube.yaml import did_you_mean
from bayplan.snapshot.columns import LABELS, Label, NodeAnnotation
from bayplan.snapshot.describe import READ_AS, said_unreadable
from bayplan.snapshot.table import NodeTable

Text = Label | NodeAnnotation


def label_hints(policies: Sequence[Policy], nodes: NodeTable) -> list[str]:
    """What is odd about the labels and annotations that policies name, or have read of these nodes."""
    if not len(nodes):
        return []
    readers: dict[object, str] = {}
    for policy in policies:
        for column in policy.columns:
            readers.setdefault(column, policy.name)
    for column in nodes.read_of_objects:
        # Those with short names are read by built-in policies that do without them.
        if column not in LABELS.values():
            readers.setdefault(column, "")
    texts = ((column, name) for column, name in readers.items() if isinstance(column, Text))
    return [hint for column, name in texts if (hint := _hint(column, name, nodes))]


def _hint(column: Text, policy: str, nodes: NodeTable) -> str:
    kind = "label" if isinstance(column, Label) else "annotation"
    who = f"policy {policy!r}" if policy else "a policy"
    odd = oddity(column, nodes)
    return f"{who} reads {kind} {column.key!r}: {odd}" if odd else ""


def oddity(column: Text, nodes: NodeTable) -> str:
    """That no node has the label or annotation, or which of them cannot be read; ``""`` if all is well."""
    texts = {node.name: column.texts(node).get(column.key) for node in nodes.objects}
    if all(text is None for text in texts.values()):
        keys = {key for node in nodes.objects for key in column.texts(node)}
        return f"no node of {len(nodes)} has it{did_you_mean(column.key, keys)}"
    wrong = set(column.unreadable(nodes.objects))
    if not wrong:
        return ""
    found = {name: text for name, text in texts.items() if name in wrong and text is not None}
    return said_unreadable(found, READ_AS[column.type])
