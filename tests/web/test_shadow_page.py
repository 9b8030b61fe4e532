"""The page about a candidate: how often it disagrees, where, and what it is when there is none."""

import json

from bayplan.engine.journal import Journal
from bayplan.engine.shadowing import NO_SHADOW, Disagreements, ShadowReport
from bayplan.web.shadow import shadow_page
from tests.web.looking import looking
from tests.web.shadowed import ELSEWHERE, REFUSED, SAME, reported


def page(report: ShadowReport) -> str:
    return shadow_page(report, now=0.0, version="1.2.3")


def test_the_rate_is_told_first() -> None:
    text = page(reported(*[SAME] * 37, REFUSED))

    assert "<b>next.yaml</b> disagrees in 1 of 38 calls, <b>2.6 %</b>" in text
    assert "2, beside live generation 3" in text


def test_an_example_says_what_each_side_says_of_a_few_nodes_and_leads_to_the_decision() -> None:
    text = page(reported(REFUSED, ELSEWHERE))

    assert 'href="/decisions/7"' in text
    assert "5 of 5 pass" in text
    assert "0 of 5 pass" in text
    assert "the pod would have no node" in text
    assert "<b>small</b>: passes → too little CPU (100m free)" in text
    assert "and 3 more" in text
    assert "best: <b>b, c, d</b> and 4 more" in text
    assert "<b>b</b>: score 3 → score 10" in text


def test_a_pod_without_a_live_decision_leads_nowhere() -> None:
    book = Disagreements(examples=10)
    book.compared("filter", "shop/web-1", REFUSED, decision=0)

    assert "/decisions/0" not in page(book.report(candidate="next.yaml"))


def test_texts_of_policies_are_escaped() -> None:
    text = page(reported(REFUSED, problem="<script>", policies=["<b>"]))

    assert "too little &lt;CPU&gt;" in text
    assert "<script>" not in text
    assert "&lt;b&gt;" in text


def test_what_went_wrong_stands_out() -> None:
    book = Disagreements(examples=10)
    book.failed("policy 'p' failed: it hangs")

    text = page(book.report(candidate="next.yaml", problem="next.yaml:1: policys: unknown key"))

    assert "The last change was not taken over: next.yaml:1: policys: unknown key" in text
    assert "the last time with: policy &#x27;p&#x27; failed: it hangs" in text
    assert "has not judged anything yet" in text


def test_without_a_candidate_the_page_says_how_to_have_one() -> None:
    assert "--shadow candidate.yaml" in page(NO_SHADOW)


async def test_page_and_json_are_served_and_linked() -> None:
    async with looking(Journal()) as browser:
        status, text, _ = await browser.get("/shadow")
        _, state, _ = await browser.get("/state")
        answered, body, headers = await browser.get("/api/shadow")

    assert (status, answered, headers["Content-Type"]) == (200, 200, "application/json")
    assert 'href="/shadow" aria-current="page"' in text
    assert 'href="/shadow"' in state
    assert (json.loads(body)["candidate"], json.loads(body)["compared"]) == ("next.yaml", 40)
