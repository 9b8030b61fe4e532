"""The page in a real browser: it lists, goes on by itself, filters, sorts, maps, and asks nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

import bayplan
from bayplan.engine.cycle import filter_nodes
from bayplan.snapshot.table import NodeTable
from bayplan.testing import make_cluster, make_node, make_pod
from tests.e2e import chromium_binary
from tests.e2e.browser import Watched, chromium, watched
from tests.e2e.page_server import DECISIONS, NODES, PageServer
from tests.web.decided import ask, made

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("one browser")]


@bayplan.filter
def wordy(nodes: NodeTable) -> bayplan.Verdict:
    """Refuses every node with many words."""
    reason = bayplan.Reason(
        "a reason of many words, for somebody wanted to help those who read it, at night too"
    )
    return reason.where(nodes["cpu.free"] >= 0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(chromium_binary.require()) as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with PageServer().running() as running:
        yield running


@pytest.fixture
def seen(browser: Browser, server: PageServer) -> Iterator[Watched]:
    """A page; at its end, nothing may have gone wrong, and nobody else may have been asked."""
    with watched(browser) as page:
        yield page
    assert page.complaints == []
    assert page.requests
    hosts = {urlsplit(url).netloc for url in page.requests}
    assert hosts == {urlsplit(server.address).netloc}


def test_the_list_appears_and_a_new_decision_comes_by_itself(seen: Watched, server: PageServer) -> None:
    page = seen.page
    page.goto(server.address)
    expect(page.get_by_role("heading", name="Decisions")).to_be_visible()
    expect(page.locator("#list tbody tr")).to_have_count(50)
    expect(page.locator("#list caption")).to_contain_text("are kept")
    expect(page.locator("#live")).to_have_text("live")

    server.decide(namespace="just-now")

    expect(page.locator("#list tbody tr").first).to_contain_text("just-now/web-1")


def test_pause_holds_the_list_and_go_on_brings_what_was_missed(seen: Watched, server: PageServer) -> None:
    page = seen.page
    page.goto(server.address)
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_role("button", name="Pause").click()
    with page.expect_response("**/api/state"):
        server.decide(namespace="while-paused")
        page.evaluate("fetch('/api/state')")
    expect(page.locator("#list")).not_to_contain_text("while-paused")

    page.get_by_role("button", name="Go on").click()

    expect(page.locator("#list")).to_contain_text("while-paused")


def test_filters_work_and_stay_in_the_address(seen: Watched, server: PageServer) -> None:
    page = seen.page
    page.goto(server.address)

    page.get_by_label("Pod").fill("shop/web-77")
    page.get_by_label("Verb").select_option("filter")
    page.get_by_role("button", name="Filter").click()

    expect(page.locator("#list tbody tr")).to_have_count(1)
    assert "pod=shop%2Fweb-77" in page.url
    assert "verb=filter" in page.url
    page.get_by_label("Refused by").select_option("cost")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#list")).to_contain_text("No decision fits these filters.")


def test_a_decision_opens_and_is_sorted_by_a_policy(seen: Watched, server: PageServer) -> None:
    page = seen.page
    page.goto(f"{server.address}/?verb=prioritize&pod=shop/web-1")
    page.locator("#list tbody a").last.click()
    expect(page.get_by_role("heading", name="shop/web-1")).to_be_visible()
    expect(page.locator("#nodes h2")).to_contain_text(f"{NODES:,} of {NODES:,}")
    expect(page.locator("#nodes tbody tr")).to_have_count(50)

    page.locator("#nodes thead").get_by_role("link", name="spare room").click()

    expect(page.locator("#nodes th[aria-sort=descending]")).to_contain_text("spare")
    scores = page.locator("#nodes tbody tr td:last-child").all_inner_texts()
    assert set(scores) == {"100.0"}
    page.get_by_role("link", name="Next →").click()
    expect(page.locator("#nodes .pages")).to_contain_text("page 2 of 100")


def test_reasons_are_grouped_and_lead_to_their_nodes(seen: Watched, server: PageServer) -> None:
    page = seen.page
    page.goto(f"{server.address}/decisions/1")
    expect(page.locator(".groups tbody tr")).to_have_count(2)

    page.get_by_role("link", name="too little CPU").click()

    expect(page.locator("#nodes h2")).to_contain_text(f"1,250 of {NODES:,}")
    expect(page.locator("#nodes tbody tr").first).to_contain_text("1000 free")


def test_the_map_shows_every_node_and_can_be_walked_with_the_keyboard(
    seen: Watched, server: PageServer
) -> None:
    page = seen.page
    page.goto(f"{server.address}/cluster")
    expect(page.locator(".heat > i")).to_have_count(NODES)

    page.locator(".heat").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#cell")).to_have_text("node-0000: 1")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#cell")).to_have_text("node-0003: 8")

    page.get_by_label("Colour by").select_option("Label('example.com/price')")
    page.wait_for_url(re.compile("column=Label"))
    expect(page.locator(".heat > i.none")).to_have_count(NODES // 5)


def test_a_map_that_is_taken_over_leaves_people_where_they_are(seen: Watched, server: PageServer) -> None:
    page = seen.page
    page.goto(f"{server.address}/cluster?column=refusals")
    page.locator(".heat").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#cell")).to_contain_text("node-0000: ")
    page.evaluate("document.querySelector('.heat').dataset.old = 'yes'")

    server.decide()

    expect(page.locator(".heat[data-old]")).to_have_count(0, timeout=15_000)
    expect(page.locator(".heat").first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#cell")).to_contain_text("node-0003: ")


def test_everything_can_be_reached_with_tab_and_enter(seen: Watched, server: PageServer) -> None:
    page = seen.page
    page.goto(f"{server.address}/?pod=shop/web-9&verb=filter&before={DECISIONS}")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to content")
    page.keyboard.press("Enter")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.locator(".decisions a:focus").count():
            break
    name = page.locator(":focus").inner_text()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    assert outline == "solid"


def test_slash_goes_to_the_first_filter(seen: Watched, server: PageServer) -> None:
    page = seen.page
    page.goto(server.address)
    expect(page.locator("#live")).to_have_text("live")

    page.keyboard.press("/")

    expect(page.get_by_label("Pod")).to_be_focused()


def test_reading_needs_no_javascript(browser: Browser, server: PageServer) -> None:
    with watched(browser, java_script_enabled=False) as seen:
        page = seen.page
        page.goto(server.address)
        page.get_by_label("Pod").fill("shop/web-77")
        page.get_by_role("button", name="Filter").click()
        page.locator("#list tbody a").first.click()
        expect(page.locator("#nodes tbody tr")).to_have_count(50)
        page.get_by_role("link", name="Cluster").click()
        page.get_by_label("Colour by").select_option("refusals")
        page.get_by_role("button", name="Show").click()
        expect(page.locator(".heat > i")).to_have_count(NODES)
        assert seen.complaints == []


def test_a_browser_logs_in_with_the_token_and_stays_live(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")
    with PageServer(nodes=30, decisions=10, token_file=tmp_path / "token").running() as server:
        credentials = {"username": "anybody", "password": "s3cret"}
        with watched(browser, http_credentials=credentials) as seen:
            seen.page.goto(server.address)
            expect(seen.page.locator("#live")).to_have_text("live")

            server.decide(namespace="just-now")

            expect(seen.page.locator("#list tbody tr").first).to_contain_text("just-now/web-1")
        with watched(browser) as stranger:
            answer = stranger.page.request.get(server.address)
            assert answer.status == 401


def test_the_page_says_when_the_server_is_gone(browser: Browser) -> None:
    with watched(browser) as seen:
        with PageServer(nodes=30, decisions=10).running() as server:
            seen.page.goto(server.address)
            expect(seen.page.locator("#live")).to_have_text("live")

        gone = expect(seen.page.locator("#live"))
        gone.to_have_text(re.compile(r"^not connected since \d\d:\d\d:\d\d$"))
        for name in ("Pause", "Go on"):
            seen.page.get_by_role("button", name=name).click()
            # At once: the browser's next try would bring the words back.
            assert "not connected" in seen.page.locator("#live").inner_text()


def test_a_phone_has_room_for_the_words_that_the_server_is_gone(browser: Browser) -> None:
    with watched(browser, width=390) as seen:
        with PageServer(nodes=30, decisions=10).running() as server:
            seen.page.goto(server.address)
            expect(seen.page.locator("#live")).to_have_text("live")

        live = seen.page.locator("#live")
        expect(live).to_contain_text("not connected")
        assert live.evaluate("each => parseFloat(getComputedStyle(each).fontSize)") > 10
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_server_that_hangs_is_not_live_and_comes_back(browser: Browser) -> None:
    with PageServer(nodes=30, decisions=10).running() as server, watched(browser) as seen:
        seen.page.clock.install()
        seen.page.goto(server.address)
        expect(seen.page.locator("#live")).to_have_text("live")

        with server.hanging():
            seen.page.clock.fast_forward(30_000)
            expect(seen.page.locator("#live")).to_contain_text("not connected since")
        seen.page.clock.fast_forward(30_000)

        expect(seen.page.locator("#live")).to_have_text("live")
        server.decide(namespace="just-now")
        seen.page.clock.fast_forward(2000)
        expect(seen.page.locator("#list tbody tr").first).to_contain_text("just-now/web-1")


def test_the_table_below_the_map_goes_on_with_it(browser: Browser) -> None:
    with PageServer(nodes=30, decisions=10).running() as server, watched(browser) as seen:
        seen.page.goto(f"{server.address}/cluster?column=refusals")
        most = seen.page.locator("#map table tbody tr").first
        expect(most.locator("td").last).to_have_text("5")
        expect(seen.page.locator("#live")).to_have_text("live")

        server.decide()

        expect(most.locator("td").last).to_have_text("6", timeout=15_000)


def test_a_cluster_appears_by_itself_when_it_is_known(browser: Browser) -> None:
    with PageServer(nodes=30, decisions=10).running() as server, watched(browser) as seen:
        known, server.cluster = server.cluster, None
        seen.page.goto(f"{server.address}/cluster")
        expect(seen.page.locator("main")).to_contain_text("No cluster is known")
        expect(seen.page.locator("#live")).to_have_text("live")

        server.cluster = known

        expect(seen.page.locator(".heat > i")).to_have_count(30, timeout=15_000)
        expect(seen.page.get_by_label("Colour by")).to_be_visible()


@pytest.mark.parametrize(
    ("width", "highest"), [pytest.param(390, 300, id="narrow"), pytest.param(1440, 200, id="wide")]
)
def test_names_as_long_as_kubernetes_allows_leave_room_for_the_rest(
    browser: Browser, width: int, highest: int
) -> None:
    server = PageServer(nodes=1, decisions=0)
    long = ".".join(["a-node-in-a-data-centre-far-away-with-a-name-that-says-all"] * 4)
    server.cluster = make_cluster(make_node(f"{long}-{number}") for number in range(10))
    pod = make_pod("checkout-" * 24, namespace="n" * 63)
    server.journal.write(
        "filter", filter_nodes([made("wordy", wordy)], ask(server.cluster, pod)), generation=1
    )
    server.decide()
    with server.running(), watched(browser, width=width) as seen:
        for path in ("/", "/decisions/1", "/decisions/2", "/cluster"):
            seen.page.goto(server.address + path)
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width, path
        seen.page.goto(f"{server.address}/decisions/1")
        rows = seen.page.locator("#nodes tbody tr")
        expect(rows).to_have_count(10)
        # Some lines of the name, more of them on a phone; the verdict beside it stays in whole words.
        assert rows.first.evaluate("row => row.offsetHeight") < highest


@pytest.mark.alone
def test_five_thousand_squares_are_taken_over_without_a_long_pause(seen: Watched, server: PageServer) -> None:
    page = seen.page
    page.goto(f"{server.address}/cluster")
    expect(page.locator("#live")).to_have_text("live")

    milliseconds = page.evaluate(_TAKE_OVER)

    print(f"{NODES} squares parsed, put in place and laid out in {milliseconds:.0f} ms")
    assert milliseconds < 500


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [pytest.param(390, id="narrow"), pytest.param(1280, id="wide")])
def test_every_page_fits_the_screen_and_can_be_read(
    browser: Browser, server: PageServer, scheme: str, width: int, tmp_path: Path
) -> None:
    with watched(browser, width=width, color_scheme=scheme) as seen:
        for name, path in (
            ("list", "/"),
            ("one", "/decisions/1"),
            ("scores", "/decisions/2"),
            ("map", "/cluster"),
            ("shadow", "/shadow"),
            ("state", "/state"),
        ):
            seen.page.goto(server.address + path)
            seen.page.wait_for_load_state("load")
            seen.page.screenshot(path=tmp_path / f"{name}-{scheme}-{width}.png")

            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width, name
            if name == "one":
                expect(seen.page.locator(".groups .help").first).to_be_visible()
            assert seen.page.evaluate(_FAINT) == [], name
            assert seen.page.evaluate(_FAINT_EDGES) == [], name
        assert seen.complaints == []


_TAKE_OVER = """async () => {
  const text = await (await fetch(location.href)).text();
  const start = performance.now();
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("map");
  const map = document.getElementById("map");
  map.replaceChildren(...document.importNode(fresh, true).childNodes);
  map.getBoundingClientRect();
  return performance.now() - start;
}"""

_CONTRAST = """
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = (ink, element) => {
    const both = [light(parts(ink)), light(behind(element))];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  };
  const found = [];
"""

# Texts whose contrast against what is behind them is less than WCAG AA asks for.
_FAINT = f"""() => {{
  {_CONTRAST}
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && found.length < 5; node = walker.nextNode()) {{
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const seen = contrast(element instanceof SVGElement ? style.fill : style.color, element);
    if (seen < 4.5) found.push(`${{node.data.trim().slice(0, 40)}}: ${{seen.toFixed(2)}}`);
  }}
  return found;
}}"""

# Fields and buttons whose edge cannot be told from what is around them.
_FAINT_EDGES = f"""() => {{
  {_CONTRAST}
  for (const each of document.querySelectorAll("input, select, button")) {{
    if (!each.checkVisibility()) continue;
    const seen = contrast(getComputedStyle(each).borderTopColor, each.parentElement);
    if (seen < 3) found.push(`${{each.name || each.textContent}}: ${{seen.toFixed(2)}}`);
  }}
  return found;
}}"""
