"""The pages: whole without JavaScript, sorted and cut by the server, and nobody can write into them."""

import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

import bayplan
from bayplan import Pod, Reason
from bayplan.engine.cycle import filter_nodes, score_nodes
from bayplan.engine.entry import PodRef
from bayplan.engine.journal import Journal
from bayplan.engine.ranking import ToWire
from bayplan.snapshot.table import NodeTable
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan.web.api import Wanted
from bayplan.web.heatmap import HeatQuery, cluster_page
from bayplan.web.page import list_page
from bayplan.web.sight import Facts
from bayplan.web.state import state_page
from bayplan.wire.scale import to_wire
from tests.web.decided import ask, cluster_of, filtered, made, price, room, written
from tests.web.looking import looking

CLUSTER = cluster_of(120)
ATTACK = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'"
INLINE = {"a", "b", "span", "i", "code"}
VOID = {"meta", "link", "input", "br", "hr", "img"}


class Read(HTMLParser):
    """A page as a browser reads it: elements, their attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag not in INLINE:
            self.words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        """All words."""
        return " ".join("".join(self.words).split())

    def first_column(self) -> list[str]:
        """The names of the rows of the table of nodes."""
        return re.findall(
            r"node-\d{4}", self.text.partition("Parts" if "Parts" in self.text else "Verdict")[2]
        )


async def seen(
    path: str,
    *,
    pods: int = 2,
    cluster: Any = CLUSTER,
    journal: Journal | None = None,
    told: ToWire | None = to_wire,
) -> Read:
    """What stands on a page after a few decisions; it must be well-formed."""
    if journal is None:
        journal = Journal()
        written(journal, cluster, pods=pods)
    async with looking(journal, cluster, to_wire=told) as page:
        status, text, _ = await page.get(path)
    assert status == 200
    read = Read(text)
    assert read.open == []
    return read


async def test_the_list_shows_each_decision_with_a_link_to_it() -> None:
    page = await seen("/")

    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert [each for each in links if each and each.startswith("/decisions/")] == [
        "/decisions/4", "/decisions/3", "/decisions/2", "/decisions/1",
    ]  # fmt: skip
    assert "60 / 120 30 too little CPU 30 wrong zone" in page.text


async def test_filters_of_the_list_are_a_form_that_keeps_what_was_chosen() -> None:
    page = await seen("/?verb=filter&pod=web-2&policy=gone")

    chosen = [a["value"] for tag, a in page.elements if tag == "option" and "selected" in a]
    typed = {a["name"]: a["value"] for tag, a in page.elements if tag == "input"}
    assert chosen == ["gone", "filter"]
    assert typed["pod"] == "web-2"
    assert "No decision fits these filters." in page.text


async def test_an_empty_journal_says_so() -> None:
    page = await seen("/", journal=Journal())

    assert "No decision yet: kube-scheduler has not asked. If pods wait, bayplan doctor finds" in page.text


async def test_an_empty_journal_of_a_scheduler_waits_for_pods() -> None:
    page = await seen("/", journal=Journal(), told=None)

    assert "No decision yet: no pod has come." in page.text


async def test_older_decisions_are_a_link_away() -> None:
    journal = Journal()
    written(journal, CLUSTER, pods=40)

    first = await seen("/?result=ok", journal=journal)
    second = await seen("/?result=ok&before=31", journal=journal)

    older = [a["href"] for tag, a in first.elements if tag == "a" and a["href"] and "before=" in a["href"]]
    assert older == ["/?result=ok&before=31"]
    assert "30 decisions, the newest first; 80 are kept" in second.text
    assert not any(a.get("id") == "list" and "data-live" in a for _, a in second.elements)


async def test_a_refusal_is_told_with_its_count_its_nodes_and_what_would_help() -> None:
    page = await seen("/decisions/1")

    assert "60 of 120 nodes passed" in page.text
    assert (
        "30 too little CPU capacity node-0000, node-0004, node-0008, … pods that are on the node" in page.text
    )
    assert "app=web" in page.text
    assert "cpu 2" in page.text


async def test_a_bind_says_where_the_nodes_were_judged() -> None:
    journal = Journal()
    journal.note("bind", PodRef.of(make_pod("web", namespace="shop")), generation=1, node="node-0001")

    page = await seen("/decisions/1", journal=journal)

    assert "who preferred this one, is in the pod's decisions before it." in page.text
    assert page.elements.count(("a", {"href": "/?pod=shop%2Fweb"})) == 2


async def test_the_nodes_of_one_reason_can_be_chosen() -> None:
    page = await seen("/decisions/1?group=0&sort=node")

    assert "Nodes 30 of 120" in page.text
    assert page.first_column()[:3] == ["node-0000", "node-0004", "node-0008"]
    assert "1000 free" in page.text


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param("sort=node", ["node-0000", "node-0001"], id="by name"),
        pytest.param("sort=node&order=desc", ["node-0119", "node-0118"], id="by name, backwards"),
        pytest.param("sort=node&page=3", ["node-0100", "node-0101"], id="the last page"),
        pytest.param("sort=node&page=99", ["node-0100", "node-0101"], id="a page beyond the last"),
        pytest.param("sort=v0", ["node-0007", "node-0014"], id="by a policy, the best first"),
        pytest.param("sort=v0&order=asc", ["node-0006", "node-0013"], id="by a policy, the worst first"),
        pytest.param("sort=v0&order=asc&page=3", ["node-0020", "node-0025"], id="no opinion comes last"),
        pytest.param("node=009", ["node-0091", "node-0095"], id="part of a name"),
        pytest.param("", ["node-0007", "node-0015"], id="the best in all first"),
    ],
)
async def test_nodes_are_sorted_by_any_policy_and_cut_into_pages(query: str, names: list[str]) -> None:
    page = await seen(f"/decisions/2?{query}")

    assert page.first_column()[:2] == names
    assert len(page.first_column()) <= 50


async def test_the_heading_that_sorts_says_so_and_turns_the_order_around() -> None:
    page = await seen("/decisions/2?sort=v1&order=desc&node=node")

    sorted_by = [a["aria-sort"] for tag, a in page.elements if tag == "th" and a.get("aria-sort")]
    links = [a["href"] for tag, a in page.elements if tag == "a" and a["href"] and "sort=v1" in a["href"]]
    assert sorted_by == ["descending"]
    assert "/decisions/2?node=node&sort=v1&order=asc#nodes" in links


async def test_bars_add_up_to_the_total_of_the_node() -> None:
    page = await seen("/decisions/2?node=node-0007")

    widths = [
        float(a["width"] or 0)
        for tag, a in page.elements
        if tag == "rect" and (a["class"] or "").startswith("bar colour")
    ]
    assert "100.0 → 10" in page.text
    assert sum(widths) == pytest.approx(100, abs=0.2)
    assert widths[0] == pytest.approx(66.7, abs=0.1)


async def test_who_says_nothing_takes_no_colour() -> None:
    @bayplan.score
    def silent(nodes: NodeTable) -> None:
        return None

    policies = [made("first", room), *(made(f"silent-{n}", silent) for n in range(5)), made("last", price)]
    journal = Journal()
    journal.write("prioritize", score_nodes(policies, ask(CLUSTER)), generation=1)

    page = await seen("/decisions/1", journal=journal)

    swatches = [a["class"] for tag, a in page.elements if tag == "i" and "swatch" in (a.get("class") or "")]
    bars = {a["class"] for tag, a in page.elements if tag == "rect" and "bar" in (a.get("class") or "")}
    assert swatches == ["swatch colour-0", "swatch colour-1"]
    assert bars == {"bar colour-0", "bar colour-1"}


async def test_a_scheduler_tells_nobody_its_scores() -> None:
    page = await seen("/decisions/2?node=node-0007", told=None)

    assert "100.0" in page.text
    assert "→" not in page.text.replace("Next →", "")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        pytest.param("cpu.free", "node-0003: 8", id="free CPU in cores"),
        pytest.param("memory.allocatable", "node-0003: 16Gi", id="memory in GiB"),
        pytest.param("Label('example.com/price')", "node-0003: 0.4", id="the label of a policy"),
        pytest.param("zone", "node-0003: a", id="texts"),
        pytest.param("ready", "node-0003: 1", id="yes or no"),
        pytest.param("refusals", "node-0004: 2", id="how often it was refused"),
    ],
)
async def test_the_map_has_a_square_a_node_by_any_column(column: str, said: str) -> None:
    page = await seen(f"/cluster?column={column}")

    squares = [a for tag, a in page.elements if tag == "i" and a.get("title")]
    assert len(squares) == 120
    assert said in [a["title"] for a in squares]
    assert next(a["value"] for tag, a in page.elements if tag == "option" and "selected" in a) == column


async def test_a_node_without_the_value_has_a_square_without_a_colour() -> None:
    page = await seen("/cluster?column=Label('example.com/price')")

    squares = {a["title"]: a["class"] for tag, a in page.elements if tag == "i" and a.get("title")}
    assert squares["node-0005: none"] == "none"
    assert squares["node-0006: 0.7"] == "heat-8"
    assert squares["node-0007: 0.1"] == "heat-0"


async def test_annotations_of_nodes_are_never_shown() -> None:
    cluster = make_cluster([make_node("quiet", annotations={"example.com/secret": "hush"})])

    page = await seen("/cluster?column=NodeAnnotation('example.com/secret')", cluster=cluster)

    assert [a["title"] for tag, a in page.elements if tag == "i" and a.get("title")] == ["quiet: 4"]
    assert "hush" not in page.text


async def test_a_server_without_a_cluster_says_so() -> None:
    page = await seen("/cluster", cluster=None, journal=Journal())

    assert "No cluster is known" in page.text


@pytest.mark.parametrize("cluster", [None, make_cluster([])], ids=["nothing", "no nodes"])
def test_a_cluster_that_is_not_listed_yet_says_why_and_is_looked_at_again(cluster: Any) -> None:
    problem = "the cluster is not listed yet: 403 Forbidden"

    page = Read(cluster_page(cluster, HeatQuery(), declared=[], entries=[], problem=problem, version=""))

    assert f"No cluster to show: {problem}." in page.text
    assert [a["id"] for _, a in page.elements if "data-live" in a] == ["unknown"]


def test_a_map_of_a_view_that_is_cut_off_says_that_it_is_old() -> None:
    problem = "cut off from the API server for 312 s"

    page = Read(cluster_page(CLUSTER, HeatQuery(), declared=[], entries=[], problem=problem, version=""))

    assert f"This may be out of date: {problem}" in page.text
    assert len([a for tag, a in page.elements if tag == "i" and a.get("title")]) == 120


def test_the_list_begins_with_what_is_wrong_with_the_server() -> None:
    problems = {"reload": "bayplan.yaml:17: policys: unknown key"} | {
        f"source {n}": "no answer" for n in range(4)
    }

    page = Read(
        list_page(
            [], Wanted(), kept=0, policies=[], moments=[], problems=problems, schedules=False, version=""
        )
    )

    assert "Decisions reload: bayplan.yaml:17: policys: unknown key source 0: no answer" in page.text
    assert "and 1 more: State of the server" in page.text


def test_a_server_that_stands_by_says_so_and_is_not_called_wrong() -> None:
    who = "another server binds: lease default/bayplan is held by b"

    page = Read(
        list_page(
            [],
            Wanted(),
            kept=0,
            policies=[],
            moments=[],
            problems={},
            stands_by=who,
            schedules=True,
            version="",
        )
    )

    assert f"Decisions This server stands by: {who}" in page.text
    assert "notice calm" in [a.get("class") for _, a in page.elements]
    assert "notice bad" not in [a.get("class") for _, a in page.elements]


@pytest.mark.parametrize(("stands_by", "shown"), [(True, "card"), (False, "card bad")])
def test_why_a_server_does_not_bind_is_a_problem_unless_it_stands_by(stands_by: bool, shown: str) -> None:
    ledger = {"standsBy": stands_by, "mayBind": False, "whyNotBind": "another server binds"}

    page = Read(state_page({"ledger": ledger}, version=""))

    assert "another server binds" in page.text
    assert [a["class"] for tag, a in page.elements if tag == "section"] == [shown]


async def test_a_server_without_problems_has_none_above_its_list() -> None:
    page = await seen("/")

    assert [a for _, a in page.elements if a.get("class") == "notice bad"] == []
    assert "problems" in [a["id"] for _, a in page.elements if "data-live" in a]


def test_the_state_begins_with_every_problem_that_the_health_checks_name() -> None:
    problems = {"cluster-view": "not listed yet", "recording": "no space left on device"}
    known: Facts = {"journal": {"decisions": 1}, "health": {"ready": False, "problems": problems}}

    page = Read(state_page(known, version=""))

    assert "State Health look ready no problems cluster-view not listed yet recording no space" in page.text
    assert "Journal fine" in page.text


async def test_a_filter_that_failed_does_not_say_that_nodes_passed() -> None:
    @bayplan.filter
    def broken(nodes: NodeTable) -> None:
        raise KeyError("no such label")

    journal = Journal()
    journal.write("filter", filter_nodes([made("broken", broken)], ask(CLUSTER)), generation=1)

    page = await seen("/decisions/1", journal=journal)
    listed = await seen("/", journal=journal)

    assert "error no answer about 120 nodes policy 'broken' failed" in page.text
    assert "nodes passed" not in page.text
    assert "120 / 120" not in listed.text


async def test_a_recheck_says_how_it_went() -> None:
    journal = Journal()
    journal.write("recheck", filtered(CLUSTER), generation=1)

    page = await seen("/decisions/1", journal=journal)

    assert "60 of 120 nodes passed, looked at again before the bind" in page.text


async def test_nodes_that_are_equal_on_the_wire_are_counted() -> None:
    page = await seen("/decisions/2")
    own = await seen("/decisions/2", told=None)

    best = page.text.partition("best: ")[2]
    assert re.match(r"node-\d{4}; kube-scheduler was told the same score for \d+ other nodes Decision", best)
    assert "told the same" not in own.text


async def test_nodes_that_several_refuse_are_told_where_the_counts_are() -> None:
    page = await seen("/decisions/1")

    # 30 are too small, 40 in the wrong zone, and 60 are refused.
    assert "Who was asked; a node that several refuse is counted with each" in page.text
    assert "several refuse" not in (await seen("/decisions/2")).text


async def test_the_state_names_what_needs_a_look() -> None:
    page = await seen("/state")

    assert "Policies fine generation 7" in page.text
    assert "Sources look usage problem broken: 3 failures in a row breaker open" in page.text
    assert "age seconds no value yet" in page.text
    assert "server ends 2027-01-01" in page.text
    assert "pods not known" in page.text


@pytest.mark.parametrize("path", ["/", "/decisions/1", "/decisions/2", "/decisions/3", "/cluster", "/state"])
async def test_no_page_needs_anything_that_its_policy_forbids(path: str) -> None:
    journal = Journal()
    written(journal, CLUSTER)
    journal.note("bind", PodRef.of(make_pod()), generation=1, node="node-0001")
    page = await seen(path, journal=journal)

    scripts = [a for tag, a in page.elements if tag == "script"]
    assert [(a["src"], a["type"]) for a in scripts] == [("/static/page.js", "module")]
    assert not [a for tag, a in page.elements if tag == "style" or "style" in a]
    assert not [name for _, a in page.elements for name in a if name.startswith("on")]
    sources = [a[name] for _, a in page.elements for name in ("src", "href", "action") if a.get(name)]
    assert [each for each in sources if each and not each.startswith(("/", "#"))] == []


async def test_whoever_names_pods_nodes_and_reasons_cannot_write_into_the_page() -> None:
    reason = Reason(f"reason {ATTACK}", detail="{why}")

    @bayplan.filter
    def hostile(pod: Pod, nodes: NodeTable) -> bayplan.Verdict:
        return reason.where(nodes["zone"] == ATTACK, why=f"detail {ATTACK}")

    @bayplan.score
    def points(nodes: NodeTable) -> Any:
        return nodes["cpu.allocatable"]

    policies = [made(f"policy {ATTACK}", hostile, points)]
    labels = {"topology.kubernetes.io/zone": ATTACK}
    cluster = make_cluster([make_node(f"node {ATTACK}", labels=labels), make_node("other")])
    pod = make_pod(f"pod {ATTACK}", namespace=f"ns {ATTACK}", labels={f"key{ATTACK}": ATTACK})
    journal = Journal()
    question = ask(cluster, pod)
    journal.write("filter", filter_nodes(policies, question), generation=1)
    journal.write("prioritize", score_nodes(policies, question), generation=1)
    dropped = ((f"node {ATTACK}", f"policy {ATTACK}", f"why {ATTACK}"),)
    journal.note("preempt", PodRef.of(pod), generation=1, dropped=dropped)
    journal.note("bind", PodRef.of(pod), generation=1, error=f"error {ATTACK}", node=f"node {ATTACK}")

    query = (
        "pod={0}&policy={0}&reason={0}&namespace={0}&result={0}&node={0}&group={0}&sort={0}&column={0}&by={0}"
    )
    escaped = query.format("%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    paths = [
        "/",
        "/decisions/1",
        "/decisions/2",
        "/decisions/3",
        "/decisions/4",
        "/cluster",
        "/cluster?column=zone",
    ]
    for path in [
        *paths,
        f"/?{escaped}",
        f"/decisions/1?{escaped}",
        f"/cluster?{escaped}",
        "/cluster?by=zone",
    ]:
        page = await seen(path, cluster=cluster, journal=journal)

        assert len([tag for tag, _ in page.elements if tag == "script"]) == 1, path
        assert not [tag for tag, _ in page.elements if tag == "img"], path
        assert not [name for _, a in page.elements for name in a if name.startswith("on")], path
    shown = await seen("/decisions/1", cluster=cluster, journal=journal)
    assert ATTACK in shown.text


async def test_the_numbers_behind_a_score_are_shown_beside_it() -> None:
    @bayplan.score(best="low")
    def dollars(nodes: NodeTable) -> bayplan.Score:
        prices = nodes["cpu.allocatable"] / 10_000
        return bayplan.Score(prices, detail="{price:.2f} <an> hour", price=prices)

    journal = Journal(clock=lambda: 1000.0)
    journal.write("prioritize", score_nodes([made("cost", dollars)], ask(CLUSTER)), generation=1)

    async with looking(journal, CLUSTER) as page:
        _, text, _ = await page.get("/decisions/1")
        _, told, _ = await page.get("/api/decisions/1")

    assert "100.0 0.10 <an> hour" in Read(text).text
    (voice,) = msgspec.json.decode(told)["voices"]
    assert voice["details"][:3] == ["0.10 <an> hour", "0.20 <an> hour", "0.40 <an> hour"]
