"""An answer that is put together from names says, byte for byte, what an encoded one says."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayplan
from bayplan.authoring.registry import Policy
from bayplan.engine.guard import Attempt
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.extender.assemble import Spelling
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.testing import make_cluster, make_node
from bayplan.testing.run import ready
from tests.runtimes.extender.caller import make_pod, names_request

PLAIN = [f"node-{number}.example.internal" for number in range(12)]
"""Names as they are."""
REASONS = [
    bayplan.Reason("too small"),
    bayplan.Reason('says "no", and\nmore \\ grün'),
    bayplan.Reason("full", preemptible=True),
]


def _policy(codes: list[int], scores: list[float]) -> list[Policy]:
    """Refuses and scores nodes by their number in the cluster."""

    @bayplan.filter
    def refuses(nodes: bayplan.NodeTable) -> bayplan.Verdict:
        given = np.array([codes[int(name.split("-")[1].split(".")[0])] for name in nodes.names])
        verdict = REASONS[0].where(given == 1)
        for number, reason in enumerate(REASONS[1:], start=2):
            verdict = verdict | reason.where(given == number)
        return verdict

    @bayplan.score(range=(0, 100))
    def scores_them(nodes: bayplan.NodeTable) -> list[float]:
        return [scores[int(name.split("-")[1].split(".")[0])] for name in nodes.names]

    return [*ready(refuses, None), *ready(scores_them, None)]


class _Encoded(Spelling):
    """Takes no name for plain."""

    def is_plain(self, names: Any) -> bool:
        return False


@settings(max_examples=150, deadline=None)
@given(
    asked=st.lists(st.sampled_from(PLAIN), unique=True),
    codes=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    scores=st.lists(st.floats(0, 100), min_size=12, max_size=12),
    settings=st.fixed_dictionaries(
        {
            "failed_nodes_heeded": st.booleans(),
            "refusals": st.sampled_from(["always", "again", "whenNonePass"]),
            "keep": st.sampled_from([None, 1, 3]),
        }
    ),
)
def test_both_ways_give_the_same_bytes(
    asked: list[str], codes: list[int], scores: list[float], settings: dict[str, Any]
) -> None:
    cluster = make_cluster([make_node(name) for name in PLAIN], [])
    body = msgspec.json.encode(names_request(asked, pod=make_pod()))
    told = []
    for spelling in (Spelling(), _Encoded()):
        verbs = Verbs(
            _policy(codes, scores),
            Metrics(version="0"),
            **settings,
        )
        verbs.spelling = spelling
        told.append(
            [getattr(verbs, verb)(body, cluster, Attempt()).body for verb in ("filter", "prioritize")]
        )

    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("names", "plain"),
    [
        pytest.param(["node-1", "node-2.example.com"], True, id="as nodes have them"),
        pytest.param([], True, id="none"),
        pytest.param(['say "hi"'], False, id="a quote"),
        pytest.param(["back\\slash"], False, id="a backslash"),
        pytest.param(["two\nlines"], False, id="a line break"),
        pytest.param(["a", ""], False, id="an empty one"),
    ],
)
def test_names_that_need_escapes_are_seen(names: list[str], plain: bool) -> None:
    assert Spelling().is_plain(names) is plain


def test_another_list_is_looked_at_anew() -> None:
    spelling = Spelling()

    assert spelling.is_plain(["fine"])
    assert not spelling.is_plain(["not \\ fine"])
    assert spelling.is_plain(["fine"])
