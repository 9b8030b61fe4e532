"""The dashboard is one that Grafana can import, and every panel of it asks for what there is."""

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.exposed import NAME, samples, strangers
from tests.e2e.prometheus_binary import require

BOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "deploy" / "grafana" / "bayplan.json").read_text()
)
ROWS = [panel for panel in BOARD["panels"] if panel["type"] == "row"]
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
EACH = pytest.mark.parametrize("panel", [pytest.param(p, id=p["title"]) for p in PANELS])


def expressions(panel: dict[str, Any]) -> list[str]:
    return [target["expr"] for target in panel["targets"]]


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
    assert [row["title"] for row in ROWS] == ["Traffic", "Policies", "View and ledger", "Sources", "Process"]


def test_nothing_overlaps_and_every_id_is_there_once() -> None:
    places = [(p["gridPos"], p["title"]) for p in BOARD["panels"]]

    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert all(place["x"] + place["w"] <= 24 for place, _ in places)
    assert [(a, b) for (p, a), (q, b) in combinations(places, 2) if overlap(p, q)] == []


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

    command = [str(require("promtool")), "check", "rules", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr


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
