"""The cluster benchmark without a cluster: its plan, how a run is judged, and its report."""

import contextlib
import http.client
import json
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
import pytest

from bayplan.config.assemble import from_files
from bayplan.config.load import parse_config
from bayplan.config.rehearse import rehearse
from bench.busy import Busy
from bench.cluster import Plan, Written, main, make_plan, parse_options, report, say
from bench.cluster_metrics import ALGORITHM_SECONDS, ATTEMPT_SECONDS
from bench.cluster_run import (
    Figures,
    Moment,
    Quantiles,
    Run,
    between,
    garbage_collected,
    missing_events,
    wrong_attempts,
    wrong_places,
)
from bench.cluster_variants import VARIANTS, Asked, asked
from bench.cluster_world import make_pod
from bench.peers_built import PEERS
from bench.wire_requests import make_node, write_snapshot
from tests.bench.go_peer import require_go
from tests.controlplane.plane import ControlPlane

FIGURES = Figures(
    pods=1_000,
    seconds=5.0,
    attempt=Quantiles(4.0, 16.0),
    algorithm=Quantiles(2.0, 8.0),
    extender_cpu_seconds=1.0,
    scheduler_cpu_seconds=3.0,
    served_cpu_seconds=5.0,
    others_cores=0.25,
)
MACHINE: dict[str, str | float | None] = {
    "cores": 2,
    "processor": "some",
    "python": "3.11",
    "go": "1.26",
    "load": 0.1,
}


def page(scheduled: int, **others: int) -> str:
    lines = [
        f'scheduler_schedule_attempts_total{{profile="p",result="{result}"}} {count}'
        for result, count in {"scheduled": scheduled, **others}.items()
    ]
    for name in (ATTEMPT_SECONDS, ALGORITHM_SECONDS):
        lines += [
            f'{name}_bucket{{le="0.002"}} {scheduled}',
            f'{name}_bucket{{le="+Inf"}} {scheduled}',
        ]
    return "\n".join(lines) + "\n"


def moment(at: float, events: int, *, scheduler: float) -> Moment:
    return Moment(at, events, {"scheduler": scheduler, "served": 2 * scheduler}, Busy())


def test_in_each_round_all_have_a_turn_and_nobody_always_runs_after_the_same_one() -> None:
    plan = make_plan(parse_options([]))

    orders = [[variant.key for variant in plan.order(number)] for number in range(plan.rounds)]

    assert all(sorted(order) == sorted(variant.key for variant in VARIANTS) for order in orders)
    for variant in VARIANTS:
        places = [order.index(variant.key) for order in orders]
        before = {order[place - 1] if place else "" for order, place in zip(orders, places, strict=True)}
        assert len(before) >= 3
        assert len(set(places)) >= 3


def test_by_default_both_sizes_have_five_rounds_of_thirteen_variants() -> None:
    plan = make_plan(parse_options([]))

    assert (plan.sizes, plan.pods, plan.rounds, plan.runs) == ((1_000, 5_000), 2_000, 5, 130)


def test_what_is_asked_for_goes_before_what_quick_means() -> None:
    plan = make_plan(parse_options(["--quick", "--nodes", "70", "--pods", "9", "--variant", "go"]))

    assert plan == Plan((70,), 9, 1, (VARIANTS[1],))
    assert plan.command == "python -m bench.cluster --nodes 70 --pods 9 --rounds 1 --variant go"


def test_no_rounds_at_all_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options(["--rounds", "0"])

    assert "must be 1 at least" in capsys.readouterr().err


def test_every_pod_is_the_same_in_every_run() -> None:
    assert make_pod(7) == make_pod(7)


def test_ten_policies_load_and_each_of_their_hooks_runs() -> None:
    policies = from_files([str(PEERS / "bayplan" / "ten.py")])

    assert len(policies) == 10
    assert rehearse(policies, pods_known=True) == []


@pytest.mark.parametrize(
    "said", [pytest.param(variant.config, id=variant.name) for variant in VARIANTS if variant.config]
)
def test_what_a_variant_configures_is_read(said: dict[str, dict[str, object]]) -> None:
    document = {
        "apiVersion": "bayplan.dev/v1",
        "kind": "BayplanConfiguration",
        "policies": [{"use": "policy.py"}],
        **said,
    }

    config, _ = parse_config(msgspec.yaml.encode(document), source="bench")

    read = msgspec.to_builtins(config, enc_hook=str)
    for section, keys in said.items():
        for key, value in keys.items():
            found = read[section][key]
            assert found == value if not isinstance(value, dict) else found.items() >= value.items()


def test_figures_are_what_happened_between_the_first_event_and_the_last() -> None:
    first, last = moment(10, 100, scheduler=1.0), moment(14, 1_100, scheduler=4.0)

    figures = between(first, last, page=page(1_100), others_cores=0.5)

    assert figures is not None
    assert (figures.pods, figures.rate) == (1_000, 250)
    assert (figures.scheduler_cpu_seconds, figures.served_cpu_seconds) == (3.0, 6.0)
    assert figures.extender_cpu_seconds is None
    assert figures.others_cores == 0.5


def test_durations_are_those_of_all_pods() -> None:
    figures = between(moment(0, 1, scheduler=0), moment(1, 9, scheduler=0), page=page(9))

    assert figures is not None
    assert (figures.attempt.p50, figures.attempt.p99) == pytest.approx((1.0, 1.98))


def test_without_a_pod_between_two_moments_nothing_is_measured() -> None:
    assert between(moment(10, 100, scheduler=1.0), moment(11, 100, scheduler=1.5), page="") is None


def test_a_pod_without_an_event_is_a_problem() -> None:
    assert missing_events(2_000, 2_000) == []
    assert missing_events(1_999, 2_000) == ["1,999 Events for 2,000 pods"]


def test_a_run_in_which_the_api_server_collected_garbage_is_a_problem() -> None:
    assert garbage_collected(0) == []
    assert garbage_collected(2) == ["the API server collected garbage 2 times"]


def test_attempts_in_vain_are_problems() -> None:
    assert wrong_attempts(page(2_000, error=0, unschedulable=0)) == []
    assert wrong_attempts(page(2_000, error=3)) == ["3 attempts with the result error"]


def test_pods_on_nodes_that_the_filter_refuses_are_a_problem() -> None:
    assert wrong_places(["ssd", "ssd"], {"ssd"}) == []
    assert wrong_places(["ssd", "hdd", None], {"ssd"}) == ["2 pods not on a node that the filter lets pass"]


def test_a_run_that_does_not_count_is_told_loudly(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan((1_000,), 2_000, 1, VARIANTS)

    say(Run("go", 1_000, 0, ("3 errors",), FIGURES), done=2, plan=plan, elapsed_seconds=60)

    assert capsys.readouterr().out.splitlines() == [
        "... 2 of 13: 1,000 nodes, round 1, Go extender: 200 pods a second; 25% of a core used by others;"
        " about 6 minutes left",
        "!!! DOES NOT COUNT: 3 errors",
    ]


def test_the_report_names_what_was_left_out() -> None:
    written = Written("the command", MACHINE, 2_000, [Run("go", 1_000, 1, ("3 errors",), None)])

    said = report(written)

    assert said.startswith("Made by `the command` on 2 cores of some")
    assert "Left out: 1,000 nodes, round 2, go: 3 errors." in said


def test_figures_of_an_earlier_run_make_the_page_and_the_picture_again(tmp_path: Path) -> None:
    written = Written("the command", MACHINE, 2_000, [Run("go", 1_000, 0, (), FIGURES)])
    earlier, docs, plot = (tmp_path / name for name in ("cluster.json", "cluster.md", "cluster.svg"))
    earlier.write_bytes(msgspec.json.encode(written))
    docs.write_text("before\n<!-- figures -->\nold\n<!-- /figures -->\nafter\n")

    main([f"--from={earlier}", f"--docs={docs}", f"--plot={plot}"])

    page_now = docs.read_text()
    assert "on 2 cores of some" in page_now
    assert "| Go extender | 1 | 200 |" in page_now
    assert "(cluster.svg)" in page_now
    assert "old" not in page_now
    assert plot.read_text().startswith("<svg")


def test_where_no_run_counts_the_page_stays_as_it_was(tmp_path: Path) -> None:
    earlier, docs = tmp_path / "cluster.json", tmp_path / "cluster.md"
    written = Written("the command", MACHINE, 2_000, [Run("go", 1_000, 0, ("3 errors",), FIGURES)])
    earlier.write_bytes(msgspec.json.encode(written))
    docs.write_text("<!-- figures -->\nold\n<!-- /figures -->\n")

    with pytest.raises(SystemExit, match="no run counts"):
        main([f"--from={earlier}", f"--docs={docs}"])

    assert "old" in docs.read_text()


@pytest.mark.parametrize("key", ["go", "bare", "bare-keep"])
def test_peers_answer_alike(tmp_path: Path, key: str) -> None:
    if key == "go":
        require_go()
    variant = next(variant for variant in VARIANTS if variant.key == key)
    nodes = [make_node(number, images=False) for number in range(30)]
    write_snapshot(tmp_path / "nodes.json", nodes)
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
    ssd = [name for name in labels if labels[name]["disk"] == "ssd"]
    points = {name: int(labels[name]["example.com/points"]) for name in ssd}
    told = [max(ssd, key=points.__getitem__)] if key == "bare-keep" else ssd

    with asked(variant, cast("ControlPlane", None), folder=tmp_path, nodes=tmp_path / "nodes.json") as peer:
        assert peer is not None
        filtered = post(peer, "filter", list(labels))
        scored = post(peer, "prioritize", ssd)

    assert filtered["NodeNames"] == told
    assert set(filtered["FailedNodes"]) == (set(labels) - set(ssd) if key == "go" else set())
    assert {line["Host"]: line["Score"] for line in scored} == points


def post(peer: Asked, verb: str, names: list[str]) -> Any:
    """What a peer says to a question as kube-scheduler puts it."""
    address = urlsplit(peer.entry["urlPrefix"])
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    with contextlib.closing(connection):
        pod = {"metadata": {"name": "web", "namespace": "default"}}
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names})
        connection.request("POST", f"/{peer.entry[f'{verb}Verb']}", body)
        return json.load(connection.getresponse())
