"""What is counted of a candidate, and which of its disagreements are kept."""

from bayplan.engine.differ import Difference, Result, Said, Turn
from bayplan.engine.shadowing import Disagreements


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def difference(result: Result, *, turned: Turn = "") -> Difference:
    return Difference(result, Said(1), Said(0), offered=1, turn=turned)


def test_the_rate_is_of_what_was_compared() -> None:
    book = Disagreements(examples=5)
    for result in ("same", "same", "same", "refuses_more"):
        book.compared("filter", "default/web", difference(result), decision=1)
    book.failed("policy 'p' failed")
    book.skipped()

    report = book.report(candidate="next.yaml")

    assert (report.compared, report.disagreed, report.rate) == (4, 1, 0.25)
    assert (report.results["failed"], report.results["skipped"]) == (1, 1)
    assert report.last_failure == "policy 'p' failed"


def test_there_is_no_rate_of_nothing() -> None:
    book = Disagreements(examples=5)
    book.failed("it hangs")

    assert book.report(candidate="next.yaml").rate is None


def test_only_the_last_disagreements_are_kept_the_newest_first() -> None:
    book = Disagreements(examples=2)
    for number in range(4):
        book.compared("filter", f"default/web-{number}", difference("mixed"), decision=number)
        book.compared("filter", "default/agreed", difference("same"), decision=9)

    report = book.report(candidate="next.yaml")

    assert [(example.pod, example.decision) for example in report.examples] == [
        ("default/web-3", 3),
        ("default/web-2", 2),
    ]


def test_pods_that_would_lose_or_find_their_node_are_counted() -> None:
    book = Disagreements(examples=2)
    book.compared("filter", "default/a", difference("refuses_more", turned="refused"), decision=1)
    book.compared("filter", "default/b", difference("refuses_more"), decision=2)
    book.compared("filter", "default/c", difference("accepts_more", turned="admitted"), decision=3)

    report = book.report(candidate="next.yaml")

    assert (report.refused_pods, report.admitted_pods) == (1, 1)


def test_steps_are_five_seconds_and_a_clock_that_goes_back_begins_none() -> None:
    clock = Clock()
    book = Disagreements(examples=2, clock=clock)
    seen: list[tuple[float, Result]] = [
        (1001.0, "same"),
        (1004.0, "mixed"),
        (1006.0, "mixed"),
        (999.0, "same"),
    ]
    for now, result in seen:
        clock.now = now
        book.compared("filter", "default/a", difference(result), decision=1)

    report = book.report(candidate="next.yaml")

    assert report.steps == ((1000, 2, 1), (1005, 2, 1))
    assert report.since == "1970-01-01T00:16:40.000Z"
