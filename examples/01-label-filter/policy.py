"""The classic tutorial: only nodes with a label, and of those the one with the highest last digit."""

import bayplan


@bayplan.filter
def has_label(pod, node):
    if "example-label" not in node.labels:
        return "node lacks example-label"


@bayplan.score
def by_last_digit(pod, node):
    return int(node.name[-1]) if node.name[-1].isdigit() else None
