"""A filter that looks at nothing but the node."""

import bayplan


@bayplan.filter
def labelled(pod: bayplan.Pod, node: bayplan.Node) -> str | None:
    return None if "ssd" in node.labels else "no SSD"
