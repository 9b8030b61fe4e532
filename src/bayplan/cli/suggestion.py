"""``; did you mean 'serve'?`` for words that are nearly right, and for those that other tools have for it."""

import difflib
import re
from collections.abc import Iterable, Mapping

Meant = Mapping[str, tuple[str, ...]]
"""What somebody means by another word, which is in small letters and without hyphens."""


def _by_word(words: Mapping[tuple[str, ...], str]) -> Meant:
    return {word: meant for meant, several in words.items() for word in several.split()}


COMMANDS_MEANT = _by_word(
    {
        ("--help",): "help",
        ("--version",): "version",
        ("certs",): "tls mtls certificate certificates",
        ("check",): "validate lint vet",
        ("check", "export-test"): "test",
        ("check", "state verify"): "verify",
        ("columns",): "labels fields",
        ("compare",): "diff",
        ("demo",): "example examples",
        ("doctor", "why pod/NAME"): "diagnose troubleshoot",
        ("doctor --fix",): "fix migrate convert",
        ("export-test",): "export",
        ("init",): "new create scaffold quickstart",
        ("init --help",): "policies",
        ("render",): "install deploy manifest manifests template generate helm",
        ("serve",): "extender",
        ("serve", "schedule"): "run start",
        ("serve --observe",): "observe",
        ("serve --record FILE",): "record",
        ("serve --shadow FILE",): "shadow",
        ("why -f POD.yaml", "compare", "replay"): "simulate simulation simulator whatif dryrun try preview",
        ("why pod/NAME",): "explain describe reason reasons pending debug",
    }
)
POLICIES_MEANT = _by_word(
    {
        ("affinity",): "dedicated dedicatednodes team teams tenant tenants",
        ("balanced-allocation",): "balance balanced",
        ("cost",): "budget budgets price prices cheap spot ondemand",
        ("expressions",): "cel rule rules",
        ("external-service",): "http webhook external service",
        ("least-allocated",): "leastrequested",
        ("load",): "loadaware hotspot hotspots usage utilization prometheus metrics trimaran",
        ("most-allocated",): "binpack binpacking pack packing mostrequested consolidate",
        ("most-available-cpu",): "cpu",
        ("preemption",): "pdb evict eviction protect priority victims",
        ("resource-limits",): "limit limits overcommit",
        ("resource-limits", "cost"): "quota quotas resourcequota",
        ("resource-limits", "most-available-cpu"): "headroom",
        ("shared-resource",): "gpu gpus gpushare gpusharing fractionalgpu vgpu device devices",
        ("spread",): "topology topologyspread zone zones rack racks",
    }
)


def nearest(word: str, known: Iterable[str], meant: Meant | None = None) -> str:
    """A tail for an error message."""
    names = list(known)
    if found := (meant or {}).get(re.sub("[-_ ]", "", word.lower())):
        return f"; did you mean {_either(found)}?"
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(names)}"


def _either(words: tuple[str, ...]) -> str:
    *first, last = map(repr, words)
    return f"{', '.join(first)} or {last}" if first else last
