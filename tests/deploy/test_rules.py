"""The alerts fire when they should and say what to do; they ask for nothing that the server does not have."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.exposed import strangers
from tests.deploy.promtool import complaints, inputs, promtool

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "bayplan-rules.yaml"
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "observe.md"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
EVERY = [rule for group in GROUPS for rule in group["rules"]]
RECORDED = {rule["record"] for rule in EVERY if "record" in rule}
ALERTS = [pytest.param(rule, id=rule["alert"]) for rule in EVERY if "alert" in rule]
TARGET = 'job="bayplan",instance="a:8889"'
OTHER = 'job="bayplan",instance="b:8889"'
SLOW = 'bayplan_request_duration_seconds_bucket{verb="filter",job="bayplan",instance="a:8889",le='
LATE = 'bayplan_event_loop_lag_seconds_bucket{job="bayplan",instance="a:8889",le='
DAY = 86400


def pending(queue: str, target: str = TARGET) -> str:
    return f'bayplan_pending_pods{{queue="{queue}",{target}}}'


def attempts(result: str, target: str = TARGET) -> str:
    return f'bayplan_schedule_attempts_total{{result="{result}",profile="mine",{target}}}'


def reports(result: str) -> str:
    return f'bayplan_schedule_reports_total{{kind="event",result="{result}",{TARGET}}}'


def writer(target: str = TARGET) -> str:
    return f'bayplan_writer{{lease="kube-system/mine",{target}}}'


# Who stands by sees the same pods wait, and tries none.
STANDS_BY = {
    writer(OTHER): "0x60",
    pending("active", OTHER): "7x60",
    pending("unschedulable", OTHER): "7x60",
    attempts("scheduled", OTHER): "0x60",
    attempts("unschedulable", OTHER): "0x60",
    attempts("error", OTHER): "0x60",
}
IDLE = {
    **STANDS_BY,
    pending("active", OTHER): "0x60",
    pending("unschedulable", OTHER): "0x60",
    writer(): "1x60",
    pending("active"): "0x60",
    pending("unschedulable"): "0x60",
    pending("gated"): "3x60",
    pending("gang"): "3x60",
    attempts("scheduled"): "99x60",
    attempts("unschedulable"): "5x60",
    attempts("error"): "5x60",
    reports("written"): "99x60",
    reports("dropped"): "5x60",
    reports("failed"): "5x60",
}
OF_SCHEDULE = [
    rule["alert"] for group in GROUPS if group["name"] == "bayplan.schedule" for rule in group["rules"]
]


@pytest.mark.parametrize("rule", [pytest.param(r, id=r.get("alert") or r["record"]) for r in EVERY])
def test_a_rule_asks_for_metrics_and_labels_that_there_are(rule: dict[str, Any]) -> None:
    assert list(strangers(rule["expr"], but=RECORDED)) == []


@pytest.mark.parametrize("rule", ALERTS)
def test_an_alert_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    assert len(rule["annotations"]["summary"]) < 120
    assert len(rule["annotations"]["description"].split()) >= 15


@pytest.mark.parametrize("rule", ALERTS)
def test_an_alert_is_in_the_guide(rule: dict[str, Any]) -> None:
    assert f"`{rule['alert']}`" in GUIDE.read_text()


def test_names_are_there_once() -> None:
    names = [rule.get("alert") or rule["record"] for rule in EVERY]

    assert len(set(names)) == len(names)


@pytest.mark.e2e
def test_prometheus_itself_accepts_the_rules() -> None:
    ended = promtool("check", "rules", "--lint-fatal", str(RULES))

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{len(EVERY)} rules found" in ended.stdout


FIRES = [
    ("BayplanAbsent", {'up{job="other"}': "1x30"}, 6),
    ("BayplanDown", {f"up{{{TARGET}}}": "0x30"}, 6),
    (
        "BayplanNotReady",
        {
            f'bayplan_health_check{{check="cluster-view",{TARGET}}}': "0x30",
            f'bayplan_health_check{{check="not-draining",{TARGET}}}': "1x30",
        },
        3,
    ),
    (
        "BayplanErrors",
        {
            f'bayplan_requests_total{{verb="filter",result="ok",{TARGET}}}': "0+90x40",
            f'bayplan_requests_total{{verb="filter",result="error",{TARGET}}}': "0+10x40",
        },
        16,
    ),
    (
        "BayplanSlow",
        {f'{SLOW}"1"}}': "0x40", f'{SLOW}"5"}}': "0+60x40", f'{SLOW}"+Inf"}}': "0+60x40"},
        11,
    ),
    (
        "BayplanPolicyFailing",
        {f'bayplan_policy_failures_total{{policy="p",kind="exception",{TARGET}}}': "0+1x40"},
        11,
    ),
    ("BayplanPolicyStuck", {f'bayplan_policy_healthy{{policy="p",{TARGET}}}': "0x30"}, 6),
    (
        "BayplanShadowFailing",
        {f'bayplan_shadow_decisions_total{{verb="filter",result="failed",{TARGET}}}': "0+1x40"},
        12,
    ),
    (
        "BayplanViewTooOld",
        {
            f"bayplan_view_age_seconds{{{TARGET}}}": "40x30",
            f"bayplan_view_max_age_seconds{{{TARGET}}}": "60x30",
        },
        2,
    ),
    ("BayplanViewDrift", {f"bayplan_view_drift{{{TARGET}}}": "2x30"}, 2),
    ("BayplanDevicesOvercommitted", {f"bayplan_overcommitted_devices{{{TARGET}}}": "1x30"}, 2),
    ("BayplanAllocationsRewritten", {f"bayplan_rewritten_allocations{{{TARGET}}}": "1x30"}, 2),
    ("BayplanPodsUnaccounted", {f"bayplan_unaccounted_pods{{{TARGET}}}": "1x30"}, 16),
    ("BayplanBindsUnsettled", {f"bayplan_unsettled_binds{{{TARGET}}}": "1x30"}, 6),
    (
        "BayplanNoWriter",
        {
            f'bayplan_writer{{lease="kube-system/bayplan",{TARGET}}}': "0x30",
            f'bayplan_writer{{lease="kube-system/bayplan",{OTHER}}}': "0x30",
        },
        2,
    ),
    (
        "BayplanSeveralWriters",
        {
            f'bayplan_writer{{lease="kube-system/bayplan",{TARGET}}}': "1x30",
            f'bayplan_writer{{lease="kube-system/bayplan",{OTHER}}}': "1x30",
        },
        2,
    ),
    ("BayplanSourceDown", {f'bayplan_source_up{{source="p95",{TARGET}}}': "0x30"}, 6),
    (
        "BayplanSourceKnowsNoNode",
        {
            f'bayplan_source_up{{source="p95",{TARGET}}}': "1x30",
            f'bayplan_source_nodes{{source="p95",{TARGET}}}': "0x30",
            f"bayplan_view_nodes{{{TARGET}}}": "3x30",
        },
        11,
    ),
    (
        "BayplanSourceStale",
        {
            f'bayplan_source_age_seconds{{source="p95",{TARGET}}}': "301x30",
            f'bayplan_source_max_age_seconds{{source="p95",{TARGET}}}': "300x30",
        },
        2,
    ),
    (
        "BayplanJournalDropsDecisions",
        {f'bayplan_journal_lines_total{{result="dropped",{TARGET}}}': "0+1x40"},
        12,
    ),
    ("BayplanReloadRefused", {f"bayplan_last_reload_successful{{{TARGET}}}": "0x30"}, 2),
    (
        "BayplanCertificateExpiresSoon",
        {f'bayplan_certificate_expiry_timestamp_seconds{{use="server",{TARGET}}}': f"{6 * DAY}x30"},
        11,
    ),
    (
        "BayplanCertificateLastDay",
        {f'bayplan_certificate_expiry_timestamp_seconds{{use="server",{TARGET}}}': f"{DAY // 2}x30"},
        1,
    ),
    (
        "BayplanEventLoopLate",
        {f'{LATE}"0.25"}}': "0x40", f'{LATE}"0.5"}}': "0+60x40", f'{LATE}"+Inf"}}': "0+60x40"},
        16,
    ),
    (
        "BayplanSchedulingErrors",
        {**STANDS_BY, writer(): "1x60", attempts("scheduled"): "0+90x60", attempts("error"): "0+10x60"},
        16,
    ),
    (
        "BayplanNothingScheduled",
        {
            **STANDS_BY,
            writer(): "1x60",
            pending("unschedulable"): "2x60",
            attempts("scheduled"): "99x60",
            attempts("unschedulable"): "0+1x60",
        },
        31,
    ),
    (
        "BayplanSchedulingStalled",
        {
            **STANDS_BY,
            writer(): "1x60",
            pending("active"): "2x60",
            attempts("scheduled"): "99x60",
            attempts("error"): "5x60",
        },
        11,
    ),
    ("BayplanReportsDropped", {reports("written"): "0+900x60", reports("dropped"): "0+1x60"}, 12),
    ("BayplanReportsFailing", {reports("written"): "0+4x60", reports("failed"): "0+6x60"}, 16),
]

QUIET = [
    pytest.param(
        "BayplanSourceKnowsNoNode",
        {
            f'bayplan_source_up{{source="p95",{TARGET}}}': "1x30",
            f'bayplan_source_nodes{{source="p95",{TARGET}}}': "0x30",
            f"bayplan_view_nodes{{{TARGET}}}": "0x30",
        },
        id="there are no nodes",
    ),
    pytest.param(
        "BayplanSourceKnowsNoNode",
        {
            f'bayplan_source_up{{source="p95",{TARGET}}}': "0x30",
            f'bayplan_source_nodes{{source="p95",{TARGET}}}': "0x30",
            f"bayplan_view_nodes{{{TARGET}}}": "3x30",
        },
        id="the source is down, which is told already",
    ),
    pytest.param("BayplanAbsent", {f"bayplan_info{{{TARGET}}}": "1x60"}, id="there is one"),
    pytest.param("BayplanDown", {'up{job="other"}': "0x30"}, id="somebody else is down"),
    pytest.param(
        "BayplanNotReady",
        {
            f'bayplan_health_check{{check="one-writer",{TARGET}}}': "0x30",
            f'bayplan_health_check{{check="one-writer",{OTHER}}}': "1x30",
        },
        id="the other server is ready, as with a Lease",
    ),
    pytest.param(
        "BayplanErrors",
        {
            f'bayplan_requests_total{{verb="filter",result="ok",{TARGET}}}': "0+99x40",
            f'bayplan_requests_total{{verb="filter",result="error",{TARGET}}}': "0+1x40",
        },
        id="one in a hundred fails",
    ),
    pytest.param(
        "BayplanErrors",
        {
            f'bayplan_requests_total{{verb="bind",result="ok",{TARGET}}}': "0x40",
            f'bayplan_requests_total{{verb="bind",result="error",{TARGET}}}': "0x40",
        },
        id="nobody asks",
    ),
    pytest.param(
        "BayplanSlow",
        {f'{SLOW}"1"}}': "0+60x40", f'{SLOW}"+Inf"}}': "0+60x40"},
        id="a second is not too slow",
    ),
    pytest.param(
        "BayplanPolicyFailing",
        {f'bayplan_policy_failures_total{{policy="p",kind="exception",{TARGET}}}': "7x40"},
        id="it failed once, long ago",
    ),
    pytest.param(
        "BayplanShadowFailing",
        {f'bayplan_shadow_decisions_total{{verb="filter",result="refuses_more",{TARGET}}}': "0+1x40"},
        id="it only disagrees",
    ),
    pytest.param(
        "BayplanViewTooOld",
        {
            f"bayplan_view_age_seconds{{{TARGET}}}": "9999x30",
            f"bayplan_view_max_age_seconds{{{TARGET}}}": " ".join(["inf"] * 31),
        },
        id="a file does not age",
    ),
    pytest.param(
        "BayplanNoWriter",
        {
            f'bayplan_writer{{lease="kube-system/bayplan",{TARGET}}}': "0x30",
            f'bayplan_writer{{lease="kube-system/bayplan",{OTHER}}}': "1x30",
        },
        id="the other server writes",
    ),
    pytest.param("BayplanNoWriter", {f"bayplan_info{{{TARGET}}}": "1x30"}, id="nobody has to"),
    pytest.param(
        "BayplanSeveralWriters",
        {f"bayplan_writer{{{TARGET}}}": "1x30", f"bayplan_writer{{{OTHER}}}": "1x30"},
        id="two sidecars need no Lease",
    ),
    pytest.param(
        "BayplanSeveralWriters",
        {
            f'bayplan_writer{{lease="kube-system/one",{TARGET}}}': "1x30",
            f'bayplan_writer{{lease="kube-system/two",{OTHER}}}': "1x30",
        },
        id="two Leases",
    ),
    pytest.param(
        "BayplanJournalDropsDecisions",
        {
            f'bayplan_journal_lines_total{{result="written",{TARGET}}}': "0+100x40",
            f'bayplan_journal_lines_total{{result="dropped",{TARGET}}}': "7x40",
        },
        id="some were dropped long ago",
    ),
    pytest.param(
        "BayplanCertificateExpiresSoon",
        {f'bayplan_certificate_expiry_timestamp_seconds{{use="server",{TARGET}}}': f"{8 * DAY}x30"},
        id="eight days are left",
    ),
    *(pytest.param(alert, STANDS_BY, id=f"{alert}: it stands by, and nobody leads") for alert in OF_SCHEDULE),
    *(pytest.param(alert, IDLE, id=f"{alert}: it has nothing to do") for alert in OF_SCHEDULE),
    *(
        pytest.param(
            alert, {f"bayplan_info{{{TARGET}}}": "1x60", writer(): "1x60"}, id=f"{alert}: it is an extender"
        )
        for alert in OF_SCHEDULE
    ),
    pytest.param(
        "BayplanSchedulingErrors",
        {attempts("scheduled"): "0+99x60", attempts("unschedulable"): "0+99x60", attempts("error"): "0+1x60"},
        id="one attempt in two hundred fails",
    ),
    pytest.param(
        "BayplanSchedulingErrors",
        {attempts("scheduled"): "0x60", attempts("unschedulable"): "0+9x60", attempts("error"): "0x60"},
        id="a pod that fits nowhere is no error",
    ),
    pytest.param(
        "BayplanNothingScheduled",
        {
            **STANDS_BY,
            writer(): "1x60",
            pending("unschedulable"): "5x60",
            attempts("scheduled"): "0+1x60",
            attempts("unschedulable"): "0+9x60",
        },
        id="five fit nowhere and others are bound",
    ),
    pytest.param(
        "BayplanNothingScheduled",
        {
            writer(): "1x20 0x40",
            writer(OTHER): "0x20 1x40",
            pending("unschedulable"): "5x60",
            pending("unschedulable", OTHER): "5x60",
            attempts("scheduled"): "0+1x20 20x40",
            attempts("scheduled", OTHER): "0x20 0+1x40",
        },
        id="another one leads now, and binds",
    ),
    pytest.param(
        "BayplanSchedulingStalled",
        {
            **STANDS_BY,
            writer(): "1x60",
            pending("active"): "500x60",
            attempts("scheduled"): "0x60",
            attempts("unschedulable"): "0+9x60",
        },
        id="many wait, and it goes on",
    ),
    pytest.param(
        "BayplanSchedulingStalled",
        {**IDLE, pending("unschedulable"): "4x60", pending("backoff"): "4x60"},
        id="nobody is next",
    ),
    pytest.param(
        "BayplanReportsDropped",
        {reports("written"): "0+900x60", reports("dropped"): "0x5 9000x55"},
        id="once there were too many",
    ),
    pytest.param(
        "BayplanReportsFailing",
        {reports("written"): "0x60", reports("failed"): "0x5 1x55"},
        id="one pod was gone, and there was nothing else to tell",
    ),
    pytest.param(
        "BayplanReportsFailing",
        {reports("written"): "0+60x60", reports("failed"): "0+20x60"},
        id="pods come and go",
    ),
]


def test_every_alert_is_seen_to_fire() -> None:
    assert {name for name, _, _ in FIRES} == {rule["alert"] for rule in EVERY if "alert" in rule}


@pytest.mark.e2e
@pytest.mark.parametrize(("alert", "series", "minutes"), [pytest.param(*each, id=each[0]) for each in FIRES])
def test_an_alert_fires_after_a_while_and_not_at_once(
    tmp_path: Path, alert: str, series: dict[str, str], minutes: int
) -> None:
    waits = "for" in next(rule for rule in EVERY if rule.get("alert") == alert)
    early = [(0, 0)] if waits else []

    assert counted(tmp_path, alert, series, [*early, (minutes, 1)]) == ""


@pytest.mark.e2e
@pytest.mark.parametrize(("alert", "series"), QUIET)
def test_an_alert_is_quiet_when(tmp_path: Path, alert: str, series: dict[str, str]) -> None:
    assert counted(tmp_path, alert, series, [(minute, 0) for minute in (1, 6, 12, 18, 36, 58)]) == ""


@pytest.mark.e2e
def test_what_people_read_names_the_one_it_is_about(tmp_path: Path) -> None:
    rule = next(rule for rule in EVERY if rule.get("alert") == "BayplanPolicyStuck")
    fired = {
        "exp_labels": {"severity": "warning", "policy": "rack", "job": "bayplan", "instance": "a:8889"},
        "exp_annotations": {
            "summary": "Policy rack overruns its time on a:8889.",
            "description": rule["annotations"]["description"],
        },
    }
    test = {
        "input_series": inputs({f'bayplan_policy_healthy{{policy="rack",{TARGET}}}': "0x30"}),
        "alert_rule_test": [{"eval_time": "6m", "alertname": "BayplanPolicyStuck", "exp_alerts": [fired]}],
    }

    assert complaints(tmp_path, test, rules=[RULES]) == ""


def counted(folder: Path, alert: str, series: dict[str, str], expected: list[tuple[int, int]]) -> str:
    """What Prometheus says against so many of the alert at each minute; ``""`` when it agrees."""
    firing = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    test = {
        "input_series": inputs(series),
        "promql_expr_test": [
            {
                "expr": f"count({firing})",
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": count}] if count else [],
            }
            for minute, count in expected
        ],
    }
    return complaints(folder, test, rules=[RULES])
