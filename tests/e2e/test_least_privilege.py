"""Least privilege: with the rights that are printed everything works, and each that is taken away is missed.

The cases are those of the table of rights. They run side by side: most of each is the start of a process.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from bayplan.install.names import Release
from bayplan.install.rights import RIGHTS, Right, rights_of
from tests.controlplane.api import PATIENCE_SECONDS
from tests.controlplane.client import ApiError
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.installed import render
from tests.e2e.one_right_less import PLACE, RBAC, Stand, Verb
from tests.e2e.rights_at_work import (
    CLAIMS,
    EXTENDER,
    LEAD,
    MADE,
    OF_LEASES,
    SCHEDULER,
    VIEW,
    VOLUMES,
    WAITS,
    Work,
)
from tests.install.releases import ONE_EACH, ONLY_SSD, configuration, policy
from tests.parity import volumes as of

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("one pool of cases")]

SIDE_BY_SIDE = 5
NUDGED = "policies: [{use: policy.py}]\ncluster: {source: in-cluster, nudge: {enabled: true}}\n"
NODES_ONLY = "policies: [{use: policy.py}]\ncluster: {source: in-cluster, nodesOnly: true}\n"
ELSEWHERE = f"{PLACE}-locks"
MANAGED = ("--tls=none", "--managed-resource=example.com/slot")
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


@dataclass(frozen=True)
class Setup:
    """What is rendered."""

    shape: str
    code: str
    options: tuple[str, ...] = ()
    more: str = ""
    """More of the configuration."""
    extender: str = NUDGED
    """The configuration of one that is no scheduler."""

    def text(self, folder: Path) -> str:
        """What ``bayplan render`` prints for it."""
        folder.mkdir()
        policy(folder, self.code)
        text = self.extender if self.shape != "standalone" else NUDGED.splitlines(keepends=True)[0]
        config = configuration(folder, f"{text}{self.more}")
        place = ("--namespace", PLACE, "--scheduler-name", PLACE)
        return render(self.shape, "--config", config, *self.options, *place)


SETUPS = {
    "service": Setup("service", ONE_EACH, MANAGED),
    "service that does not bind": Setup("service", ONLY_SSD, ("--tls=none", "--ignorable")),
    "service that follows nodes alone": Setup(
        "service", ONLY_SSD, ("--tls=none", "--ignorable"), extender=NODES_ONLY
    ),
    "control-plane": Setup("control-plane", ONE_EACH, MANAGED),
    "sidecar": Setup("sidecar", ONE_EACH),
    "standalone": Setup("standalone", ONLY_SSD),
    "service with its Lease elsewhere": Setup(
        "service", ONE_EACH, MANAGED, f"extender: {{lease: {{namespace: {ELSEWHERE}}}}}\n"
    ),
    "standalone with its Lease elsewhere": Setup(
        "standalone",
        ONLY_SSD,
        more=f"scheduler: {{leaderElection: {{resourceNamespace: {ELSEWHERE}}}}}\n",
    ),
}
NOT_OF_KUBE_SCHEDULER = {
    Verb("", "pods", "patch"),
    Verb("coordination.k8s.io", "leases", "get"),
    Verb("coordination.k8s.io", "leases", "update"),
}
"""What a sidecar's account has of us alone: Kubernetes allows kube-scheduler all the rest."""


@dataclass(frozen=True)
class Case:
    """Something to do for an installation, with or without a right."""

    setup: str
    work: Work
    less: Verb | None = None
    from_old: bool = False
    """From an API server that cannot stream lists (WatchList is off): only there is `list` used."""


def lines(shape: str) -> list[Right]:
    """The lines of the table for a shape whose policies use all that there is."""
    values = {
        "shape": shape,
        "verbs": {"bind": True},
        "config": {"cluster": {"nudge": {"enabled": True}}},
    }
    return rights_of(Release(values, namespace="", minor=36))


def singly(right: Right) -> list[Verb]:
    """A line of the table, verb by verb."""
    return [Verb(right.group, resource, verb) for resource, verb in product(right.resources, right.verbs)]


def work_for(shape: str, right: Verb) -> Work:
    """What takes the right. One that is not known here is one of which nobody has shown what it is for."""
    if right.verb in ("list", "watch"):
        return VIEW
    if right.resource == "leases":
        return LEAD[right.verb] if shape == "sidecar" else OF_LEASES[right.verb]
    return (SCHEDULER if shape == "standalone" else EXTENDER)[right.resource, right.verb]


def one_less() -> Iterator[tuple[str, Case]]:
    """Each verb of the table, taken away; of a sidecar those that are not among kube-scheduler's own."""
    for shape in ("service", "standalone", "control-plane", "sidecar"):
        for right in sorted({each for line in lines(shape) for each in singly(line)}):
            if shape != "sidecar" or right in NOT_OF_KUBE_SCHEDULER:
                case = Case(shape, work_for(shape, right), right, from_old=right.verb == "list")
                yield f"{shape}: {right}", case
    for shape, verb in product(("service", "standalone"), OF_LEASES):
        setup, right = f"{shape} with its Lease elsewhere", Verb("coordination.k8s.io", "leases", verb)
        yield f"{setup}: {right}", Case(setup, OF_LEASES[verb], right)


def all_there() -> Iterator[tuple[str, Case]]:
    """Everything that takes a right, with all of them."""
    yield from ((f"{name}: the view", Case(name, VIEW)) for name in SETUPS)
    yield "service: the view of an old one", Case("service", VIEW, from_old=True)
    yield "standalone: the view of an old one", Case("standalone", VIEW, from_old=True)
    for setup, works in (("service", EXTENDER), ("standalone", SCHEDULER)):
        yield from ((f"{setup}: {verb} {name}", Case(setup, work)) for (name, verb), work in works.items())
        for place in (setup, f"{setup} with its Lease elsewhere"):
            yield from ((f"{place}: {verb} leases", Case(place, work)) for verb, work in OF_LEASES.items())
    yield from ((f"sidecar: {verb} leases", Case("sidecar", work)) for verb, work in LEAD.items())
    for setup in ("control-plane", "sidecar"):
        yield f"{setup}: bind", Case(setup, EXTENDER["pods/binding", "create"])
        yield f"{setup}: nudge", Case(setup, EXTENDER["pods", "patch"])


LESS = {f"without {name}": case for name, case in one_less()}
FULL = dict(all_there())


def as_missed(stand: Stand, work: Work) -> None:
    """What is missing is said where people look, in the words of the API server, and we stay up."""
    less = stand.less
    assert less is not None

    def told() -> bool:
        stand.child.check()
        return less.refusal in work.told(stand)

    wait_until(
        told,
        PATIENCE_SECONDS,
        what=f"somebody misses the right to {less}",
        explain=lambda: f"{work.told(stand)}\n{stand.child.log_tail()}",
    )
    assert work.alive(stand)


def as_done(stand: Stand, work: Work) -> None:
    """It is done, and nothing was forbidden."""

    def done() -> object:
        stand.child.check()
        return work.done(stand)

    wait_until(
        done,
        PATIENCE_SECONDS,
        what="it is done",
        explain=lambda: f"{work.told(stand)}\n{stand.child.log_tail()}",
    )
    assert "forbidden" not in stand.log()
    assert "forbidden" not in stand.events()


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    """What becomes of each case that is asked for, as it becomes known."""
    folder = tmp_path_factory.mktemp("rights")
    asked = [
        str(item.callspec.params["case"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and hasattr(item, "callspec")
    ]
    cases = {name: case for name, case in (*LESS.items(), *FULL.items()) if name in asked}
    texts = {name: SETUPS[name].text(folder / name) for name in {case.setup for case in cases.values()}}
    api = control_plane.api
    api.clear()
    for number in range(len(asked)):
        api.create_node(f"case-{number}", labels={"of": f"case-{number}", "disk": "ssd"})
    api.create_priority_class("urgent", 1000)
    for one in (of.storage_class(WAITS), of.storage_class(MADE, provisioner=of.DRIVER)):
        api.request("POST", STORAGE_CLASSES, body=one)
    with (
        control_plane.other_apiserver("--feature-gates=WatchList=false") as old,
        ThreadPoolExecutor(SIDE_BY_SIDE) as pool,
    ):

        def run(number: int, case: Case) -> None:
            server = old.server if case.from_old else ""
            place = f"case-{number}"
            stand = Stand(
                control_plane, folder / place, texts[case.setup], place, less=case.less, server=server
            )
            with closing(stand.api):
                stand.grant()
                with case.work.under_way(stand):
                    (as_missed if case.less else as_done)(stand, case.work)

        try:
            yield {name: pool.submit(run, number, cases[name]) for number, name in enumerate(asked)}
        finally:
            pool.shutdown(cancel_futures=True)
    sweep(control_plane)


def sweep(cluster: ControlPlane) -> None:
    """Delete what `clear` does not know."""
    api = cluster.api
    api.clear()
    ours = "?labelSelector=app.kubernetes.io/managed-by=bayplan-render"
    for path in ("clusterroles", "clusterrolebindings", "namespaces/kube-system/rolebindings"):
        api.request("DELETE", f"/apis/{RBAC}/v1/{path}{ours}")
    for path in (CLAIMS, VOLUMES):
        for one in api.request("GET", path)["items"]:
            where = f"{path}/{one['metadata']['name']}"
            api.request("DELETE", where)
            # It is gone already where nobody has put a finalizer on it.
            with suppress(ApiError):
                free = {"metadata": {"finalizers": None}}
                api.request("PATCH", where, body=free, content_type="application/merge-patch+json")
    for name in (WAITS, MADE):
        api.request("DELETE", f"{STORAGE_CLASSES}/{name}")


@pytest.mark.parametrize("case", LESS)
def test_a_right_that_is_taken_away_is_missed_by_name(case: str, outcomes: dict[str, Future[None]]) -> None:
    outcomes[case].result()


@pytest.mark.parametrize("case", FULL)
def test_with_the_rights_that_are_printed_it_works(case: str, outcomes: dict[str, Future[None]]) -> None:
    outcomes[case].result()


def test_no_line_of_the_table_is_left_out() -> None:
    tried = {case.less for case in LESS.values()}

    assert {verb for line in RIGHTS for verb in singly(line)} == tried
