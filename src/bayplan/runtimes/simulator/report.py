"""A comparison as a page of its own: one file, no scripts, nothing loaded from anywhere."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from bayplan.runtimes.simulator.compare import Comparison, Placement, PodComparison
from bayplan.runtimes.simulator.plots import paired_bars

_NODES_SHOWN = 30
_PODS_SHOWN = 500
_SHARES = ("0-20 %", "20-40 %", "40-60 %", "60-80 %", "80-100 %", "over 100 %")
_STYLE = """
:root { color-scheme: light dark; --first: #8a94a6; --second: #d9730d; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { width: 100%; min-width: 44rem; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.first { fill: var(--first); } .second { fill: var(--second); }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
.wide { overflow-x: auto; } td { overflow-wrap: break-word; } .quiet { opacity: .7; }
@media (prefers-color-scheme: dark) { :root { --first: #9aa5b8; --second: #f0a04b; } }
"""


def figures(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """What the placements come to, line by line: the name, the one, the other; of prices where there are."""
    one, other = comparison.measures()
    for name, key in (
        ("pods placed", "placed"),
        ("pods refused", "refused"),
        ("nodes used", "nodes_used"),
        ("most pods on a node", "most_on_a_node"),
        ("most pods in a zone", "most_in_a_zone"),
        ("price of the nodes used", "price_of_nodes"),
        ("price of a pod's node, mean", "price_a_pod"),
    ):
        before, after = getattr(one, key), getattr(other, key)
        if not (math.isnan(before) and math.isnan(after)):
            yield name, _number(before), _number(after)
    for name, key in (
        ("CPU requested of a pod's node, mean", "cpu_share_mean"),
        ("CPU requested of the fullest node", "cpu_share_max"),
    ):
        yield name, _percent(getattr(one, key)), _percent(getattr(other, key))


def write_report(comparison: Comparison, path: Path, *, recording: str) -> None:
    """Write the page."""
    path.write_text(page(comparison, recording=recording))


def page(comparison: Comparison, *, recording: str) -> str:
    """The page as text."""
    first, second = (escape(name) for name in comparison.names)
    changes = comparison.changes
    summary = ", ".join(f"{count} {escape(change)}" for change, count in changes.most_common()) or "no pods"
    body = [
        "<h1>What would change</h1>",
        f'<p><span class="key" style="background:var(--first)"></span>{first}<br>'
        f'<span class="key" style="background:var(--second)"></span>{second}</p>',
        f"<p>{len(comparison.pods)} pods of <code>{escape(recording)}</code>: {summary}.</p>",
        '<p class="quiet">Each pod is judged in the cluster as it was recorded, at its last try; one that'
        " would have been elsewhere is not moved for the pods after it. Where kube-scheduler's own scores"
        " count too, it may have chosen another node.</p>",
        *(f"<p>Warning: {escape(warning)}</p>" for warning in comparison.warnings),
        _table(
            ["", first, second], [[escape(t) for t in line] for line in figures(comparison)], numbers=True
        ),
        "<h2>Pods by node</h2>",
        _nodes(comparison),
        "<h2>CPU requested on the chosen node</h2>",
        _shares(comparison),
        "<h2>Pods that change</h2>",
        _pods(comparison.different, first, second),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Bayplan: what would change</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _nodes(comparison: Comparison) -> str:
    one = Counter(pod.first.node for pod in comparison.pods if pod.first.node)
    other = Counter(pod.second.node for pod in comparison.pods if pod.second.node)
    most = sorted({*one, *other}, key=lambda node: (-abs(other[node] - one[node]), -one[node], node))
    shown = most[:_NODES_SHOWN]
    left = len(most) - len(shown)
    rest = f'<p class="quiet">{left} more nodes change less.</p>' if left else ""
    bars = paired_bars(
        shown, [one[node] for node in shown], [other[node] for node in shown], title="pods by node"
    )
    return f'<div class="wide" tabindex="0">{bars}</div>{rest}'


def _shares(comparison: Comparison) -> str:
    def counts(placements: Sequence[Placement]) -> list[int]:
        known = [p.cpu_share for p in placements if p.node and not math.isnan(p.cpu_share)]
        found = Counter(5 if share > 1 else min(4, int(share * 5)) for share in known)
        return [found[number] for number in range(len(_SHARES))]

    first = counts([pod.first for pod in comparison.pods])
    second = counts([pod.second for pod in comparison.pods])
    bars = paired_bars(_SHARES, first, second, title="pods by the CPU requested on their node")
    return f'<div class="wide" tabindex="0">{bars}</div>'


def _pods(pods: Sequence[PodComparison], first: str, second: str) -> str:
    if not pods:
        return "<p>None.</p>"
    rows = [
        [escape(pod.pod), escape(pod.change), _where(pod.first), _where(pod.second)]
        for pod in pods[:_PODS_SHOWN]
    ]
    more = f'<p class="quiet">and {len(pods) - _PODS_SHOWN} more</p>' if len(pods) > _PODS_SHOWN else ""
    said = '<p class="quiet">After each node is its total score, 0 to 100.</p>'
    return said + _table(["pod", "change", first, second], rows) + more


def _where(placement: Placement) -> str:
    if not placement.node:
        return f'<span class="quiet">{escape(placement.reason)}</span>'
    return f"{escape(placement.node)} ({placement.score:.0f})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if numbers and place else ''}>{text}</{tag}>"
            for place, text in enumerate(texts)
        )

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide" tabindex="0"><table><tr>{cells("th", heads)}</tr>{lines}</table></div>'


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:g}" if isinstance(value, int) else f"{value:.4g}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.0f} %"
