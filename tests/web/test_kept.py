"""The page shows that an answer was cut down, and which nodes were told."""

from bayplan.engine.guard import Attempt
from bayplan.engine.journal import Journal
from bayplan.engine.keep import Turns, filter_and_keep
from bayplan.testing import make_pod
from bayplan.web.api import summary
from tests.web.decided import POLICIES, ask, cluster_of
from tests.web.looking import looking
from tests.web.test_pages import Read

CLUSTER = cluster_of(30)
POD = make_pod("web-1", namespace="shop", uid="the-same", cpu=2)


def journal(keep: int, *, turn: int = 0) -> Journal:
    """A filter whose answer was cut down."""
    found = Journal()
    attempt = Attempt(turn=turn)
    filtered, cut = filter_and_keep(POLICIES, ask(CLUSTER, POD), attempt, keep=keep, turns=Turns())
    assert cut is not None
    found.write("filter", filtered, generation=1)
    found.write("keep", cut, generation=1)
    return found


def test_a_summary_names_the_node_that_leads_and_not_the_best_of_all() -> None:
    first, second = (summary(journal(1, turn=turn).entries()[0]) for turn in (0, 1))

    assert first.kept == second.kept == 1
    assert first.best != second.best
    assert summary(journal(1).entries()[1]).kept == 0


async def test_the_list_and_the_decision_say_how_many_were_kept() -> None:
    written = journal(3)
    line = summary(written.entries()[0])
    async with looking(written) as browser:
        listed = Read((await browser.get("/"))[1])
        page = Read((await browser.get(f"/decisions/{line.decision}"))[1])

    assert f"3 / {line.offered}" in listed.text
    assert f"kept: {line.best} and 2 more" in listed.text
    assert f"3 of {line.offered} nodes that passed kept: {line.best} and 2 more" in page.text
