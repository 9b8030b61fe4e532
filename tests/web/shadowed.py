"""What a candidate said beside the live policies, for tests of its page."""

from bayplan.engine.differ import Difference, NodeDifference, Said, Word
from bayplan.engine.shadowing import Disagreements, ShadowReport

SAME = Difference("same", Said(5), Said(5), offered=5)
REFUSED = Difference(
    "refuses_more",
    Said(5),
    Said(0, "5 too little CPU"),
    offered=5,
    refused=5,
    turn="refused",
    nodes=(
        NodeDifference("small", Word(), Word(False, "capacity", "too little CPU", "100m free")),
        NodeDifference("tiny", Word(), Word(False, "capacity", "too little <CPU>")),
    ),
)
ADMITTED = Difference(
    "accepts_more",
    Said(0, "5000 wrong zone"),
    Said(1250),
    offered=5000,
    accepted=1250,
    turn="admitted",
    nodes=(
        NodeDifference("node-with-a-long-name.example.com", Word(False, "placement", "wrong zone"), Word()),
    ),
)
ELSEWHERE = Difference(
    "other_node",
    Said(3, best=("a",), best_count=1),
    Said(3, best=("b", "c", "d"), best_count=7),
    offered=9,
    nodes=(NodeDifference("b", Word(score=3), Word(score=10)),),
)


def reported(*differences: Difference, **about: object) -> ShadowReport:
    """The report after these comparisons, as decisions 7, 8 and so on."""
    book = Disagreements(examples=10)
    for number, difference in enumerate(differences, start=7):
        verb = "prioritize" if difference.result == "other_node" else "filter"
        book.compared(verb, f"shop/web-{number}", difference, decision=number)
    return book.report(**{"candidate": "next.yaml", "generation": 2, "live_generation": 3, **about})


def busy() -> ShadowReport:
    """One with a bit of everything."""
    differences = [*[SAME] * 37, REFUSED, ADMITTED, ELSEWHERE]
    return reported(
        *differences,
        policies=["capacity", "placement"],
        problem="next.yaml:7: policies[0].wieght: unknown key; did you mean 'weight'?",
        sample_ratio=0.25,
        waiting=2,
        sources={"usage": "broken: 3 failures in a row: no answer in 5 s"},
    )
