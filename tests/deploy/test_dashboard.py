"""The dashboard is one that Grafana can import, and every panel of it asks for what there is."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from bayplan.ops.schedule_metrics import RESULTS, ScheduleMetrics
from tests.deploy.exposed import NAME, samples, scheduler_samples, strangers
from tests.deploy.promtool import complaints, inputs, promtool

BOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "deploy" / "grafana" / "bayplan.json").read_text()
)
ROWS = [panel for panel in BOARD["panels"] if panel["type"] == "row"]
# Grafana keeps the panels of a folded row inside of it.
FOLDED = [panel for row in ROWS for panel in row["panels"]]
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"] + FOLDED
SCHEDULER = next(row for row in ROWS if row["title"] == "Scheduler (bayplan schedule)")
TARGET = 'job="bayplan",instance="a:8891"'
OTHER = 'job="bayplan",instance="b:8891"'
EACH = pytest.mark.parametrize("panel", [pytest.param(p, id=p["title"]) for p in PANELS])


def expressions(panel: dict[str, Any]) -> list[str]:
    return [target["expr"] for target in panel["targets"]]


def named(panels: list[dict[str, Any]]) -> set[str]:
    """The metrics that they ask for."""
    return {name for panel in panels for text in expressions(panel) for name in NAME.findall(text)}


@EACH
def test_a_panel_asks_for_metrics_and_labels_that_there_are(panel: dict[str, Any]) -> None:
    assert [wrong for text in expressions(panel) for wrong in strangers(text)] == []


@EACH
def test_a_panel_shows_the_chosen_servers_of_the_chosen_prometheus(panel: dict[str, Any]) -> None:
    for each in (panel, *panel["targets"]):
        assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for text in expressions(panel):
        selectors = re.findall(r"\b(?:bayplan|process)_\w+(\{[^}]*\})?", text)
        assert selectors
        assert all('job=~"$job",instance=~"$instance"' in selector for selector in selectors)


@EACH
def test_a_panel_says_what_it_shows_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["type"] in ("timeseries", "stat", "state-timeline")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert all(target["legendFormat"] for target in panel["targets"])
    shown = {label for t in panel["targets"] for label in re.findall(r"\{\{(\w+)\}\}", t["legendFormat"])}
    known = {"instance"}.union(
        *(samples()[name] for text in expressions(panel) for name in NAME.findall(text))
    )
    assert shown <= known


def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    text = json.dumps([expressions(panel) for panel in PANELS])
    families = {re.sub(r"_(total|bucket|sum|count)$", "", n) for n in samples() if n.startswith("bayplan_")}

    assert sorted(name for name in families if name not in text) == []


def test_rows_are_the_subjects_of_the_server() -> None:
    assert [row["title"] for row in ROWS] == [
        "Traffic",
        "Scheduler (bayplan schedule)",
        "Policies",
        "View and ledger",
        "Sources",
        "Process",
    ]


def test_what_only_the_scheduler_has_is_folded_away() -> None:
    ours = SCHEDULER["panels"]
    inside, elsewhere = named(ours), named([panel for panel in PANELS if panel not in ours])

    assert [row["title"] for row in ROWS if row["collapsed"]] == [SCHEDULER["title"]]
    assert inside - scheduler_samples().keys() == {"bayplan_writer"}
    assert elsewhere.isdisjoint(scheduler_samples())


def test_a_panel_of_the_scheduler_says_whose_data_are_missing() -> None:
    said = {panel["fieldConfig"]["defaults"]["noValue"] for panel in SCHEDULER["panels"]}

    assert said == {"no data of bayplan schedule"}


@pytest.mark.parametrize(
    "panels",
    [pytest.param(BOARD["panels"], id="open"), pytest.param(SCHEDULER["panels"], id="in the folded row")],
)
def test_nothing_overlaps(panels: list[dict[str, Any]]) -> None:
    places = [(p["gridPos"], p["title"]) for p in panels]

    assert all(place["x"] + place["w"] <= 24 for place, _ in places)
    assert [(a, b) for (p, a), (q, b) in combinations(places, 2) if overlap(p, q)] == []


def test_every_id_is_there_once() -> None:
    numbers = [panel["id"] for panel in (*ROWS, *PANELS)]

    assert len(set(numbers)) == len(numbers)


def test_panels_of_a_folded_row_are_below_it() -> None:
    assert min(panel["gridPos"]["y"] for panel in FOLDED) == SCHEDULER["gridPos"]["y"] + 1


def test_it_can_be_imported_anywhere() -> None:
    kinds = [(each["name"], each["type"]) for each in BOARD["templating"]["list"]]

    assert kinds == [("datasource", "datasource"), ("job", "query"), ("instance", "query")]
    assert BOARD["schemaVersion"] >= 39
    assert "id" not in BOARD  # Grafana gives its own
    assert (BOARD["uid"], BOARD["title"]) == ("bayplan", "Bayplan")


@pytest.mark.e2e
def test_prometheus_can_read_every_expression(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{panel['id']}:{number}", "expr": filled(text)}
        for panel in PANELS
        for number, text in enumerate(expressions(panel))
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, width=1000))

    ended = promtool("check", "rules", str(file))

    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.e2e
def test_every_panel_of_the_scheduler_has_an_answer_where_one_is_at_work(tmp_path: Path) -> None:
    texts = [filled(text) for panel in SCHEDULER["panels"] for text in expressions(panel)]
    answered = [
        {"expr": f"count(({text}) > 0) > bool 0", "eval_time": "9m", "exp_samples": [{"value": 1}]}
        for text in texts
    ]

    assert complaints(tmp_path, {"input_series": inputs(at_work()), "promql_expr_test": answered}) == ""


@pytest.mark.e2e
def test_panels_of_the_scheduler_are_empty_where_there_is_an_extender_alone(tmp_path: Path) -> None:
    texts = [filled(text) for panel in SCHEDULER["panels"] for text in expressions(panel)]
    series = {f"bayplan_info{{{TARGET}}}": "1x10", f"bayplan_writer{{{TARGET}}}": "1x10"}
    empty = [{"expr": text, "eval_time": "9m", "exp_samples": []} for text in texts]

    assert complaints(tmp_path, {"input_series": inputs(series), "promql_expr_test": empty}) == ""


@pytest.mark.e2e
def test_pods_that_a_scheduler_sees_which_stands_by_do_not_count_twice(tmp_path: Path) -> None:
    (text,) = next(expressions(panel) for panel in SCHEDULER["panels"] if panel["title"] == "Pods that wait")
    stands_by = {
        f'bayplan_pending_pods{{queue="active",{OTHER}}}': "4x10",
        f"bayplan_writer{{{OTHER}}}": "0x10",
    }
    once = {
        "expr": filled(text) + " > 0",
        "eval_time": "9m",
        "exp_samples": [{"labels": '{queue="active"}', "value": 4}],
    }

    test = {"input_series": inputs(at_work() | stands_by), "promql_expr_test": [once]}
    assert complaints(tmp_path, test) == ""


def at_work() -> dict[str, str]:
    """What a scheduler exposes that does each thing once a minute."""
    registry = CollectorRegistry()
    metrics = ScheduleMetrics(registry, profiles=["mine"])
    for result in RESULTS:
        metrics.attempted(result, "mine", seconds=0.02)
    metrics.algorithm_duration.observe(0.01)
    metrics.bound(attempts=1, seconds=0.3)
    metrics.waiting({"active": 4})
    metrics.binding.set(2)
    metrics.waiting_for_volumes.set(1)
    metrics.victims.observe(2)
    metrics.reports.labels("event", "dropped").inc()
    metrics.gangs.labels("placed").inc()
    found = {f"bayplan_writer{{{TARGET}}}": "1x10"}
    for family in registry.collect():
        for sample in family.samples:
            labels = "".join(f'{name}="{value}",' for name, value in sample.labels.items())
            grows = f"{sample.value}x10" if family.type == "gauge" else f"0+{sample.value}x10"
            found[f"{sample.name}{{{labels}{TARGET}}}"] = grows
    return found


def filled(text: str) -> str:
    """As Grafana sends it."""
    filled = text.replace("$__rate_interval", "2m").replace("$job", ".*").replace("$instance", ".*")
    assert "$" not in filled
    return filled


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )
