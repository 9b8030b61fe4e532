"""A new certificate, and a new CA in three steps, while pods are being scheduled: no call fails."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.scheduler import Scheduler
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import COMMAND, Extender
from tests.e2e.steady_caller import SteadyCaller
from tests.e2e.upgrading import BURST, EVEN, NODES, arriving, attempts, check_places, create_nodes

pytestmark = pytest.mark.e2e

# kube-scheduler connects anew after each rest, and shows what it trusts and who it is by now.
KEEP_ALIVE, REST_SECONDS = "1s", 2.5
RELOADED = "certificates changed; new connections use the new ones"


class Mounted:
    """A folder as the kubelet mounts a Secret: all files change at once, by one link."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        folder.mkdir()
        for name in ("tls.crt", "tls.key", "ca.crt"):
            (folder / name).symlink_to(Path("..data") / name)

    def path(self, name: str) -> Path:
        """Where a file is read."""
        return self._folder / name

    def files(self) -> Path:
        """The folder behind the link as it is now: who reads several files takes them all from here."""
        return (self._folder / "..data").resolve()

    def replace(self, certs: Path, side: str) -> None:
        """Hand out what ``bayplan certs`` has made for one side."""
        self._number += 1
        fresh = self._folder / f"..{self._number}"
        fresh.mkdir()
        for source, name in ((f"{side}.crt", "tls.crt"), (f"{side}.key", "tls.key"), ("ca.crt", "ca.crt")):
            shutil.copy(certs / source, fresh / name)
        link = self._folder / "..data_tmp"
        link.symlink_to(fresh.name)
        link.replace(self._folder / "..data")


class Site:
    """The folder of ``bayplan certs``, what both sides read, and the server."""

    def __init__(self, cluster: ControlPlane, directory: Path) -> None:
        self.cluster = cluster
        self.certs = directory / "certs"
        self.run("create", "--out", self.certs, "--ip", "127.0.0.1")
        self.server, self.client = Mounted(directory / "server"), Mounted(directory / "client")
        self.server.replace(self.certs, "server")
        self.client.replace(self.certs, "client")
        tls = {
            "certFile": str(self.server.path("tls.crt")),
            "keyFile": str(self.server.path("tls.key")),
            "clientCAFile": str(self.server.path("ca.crt")),
            "requireClientCert": True,
            "allowedNames": ["kube-scheduler"],
            "reload": "200ms",
        }
        config = {"extender": {"tls": tls, "limits": {"keepAlive": KEEP_ALIVE}}}
        self.bayplan = Extender(cluster.api, directory, EVEN, kubeconfig=cluster.kubeconfig, config=config)

    def run(self, *arguments: str | Path) -> None:
        """The real ``bayplan certs``."""
        command = [str(COMMAND), "certs", *map(str, arguments)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
        assert "wrote" in ended.stdout

    def hand_to_server(self) -> None:
        """The Secret of the server, until it is used."""
        before = self.bayplan.log().count(RELOADED)
        self.server.replace(self.certs, "server")
        wait_until(lambda: self.bayplan.log().count(RELOADED) > before, 10, what="the new files are used")

    def hand_to_client(self) -> None:
        """The files of kube-scheduler, and of the caller beside it."""
        self.client.replace(self.certs, "client")

    def context(self) -> ssl.SSLContext:
        """What the caller has now."""
        # Through the link, the key could be a newer one than the certificate that was read before it.
        files = self.client.files()
        context = ssl.create_default_context(cafile=str(files / "ca.crt"))
        context.load_cert_chain(files / "tls.crt", files / "tls.key")
        return context

    @contextmanager
    def scheduler(self, *, may_fail: bool = False) -> Iterator[Scheduler]:
        """kube-scheduler with these files; unless it may, no attempt of it fails."""
        names = {"caFile": "ca.crt", "certFile": "tls.crt", "keyFile": "tls.key"}
        entry = {
            **self.bayplan.entry(bind=True),
            "enableHTTPS": True,
            "tlsConfig": {key: str(self.client.path(name)) for key, name in names.items()},
        }
        with self.cluster.scheduler(extenders=[entry]) as scheduler:
            yield scheduler
            tries = attempts(scheduler)
            assert may_fail or set(tries) <= {"scheduled"}, tries

    def lets_in(self, context: ssl.SSLContext) -> bool:
        """Whether a new connection is answered."""
        try:
            with closing(HTTPSConnection("127.0.0.1", self.bayplan.port, timeout=5, context=context)) as line:
                line.request("GET", "/filter")
                return line.getresponse().status == 405
        except OSError:
            return False


@pytest.fixture
def site(cluster: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    """A running server."""
    create_nodes(cluster)
    made = Site(cluster, tmp_path)
    with made.bayplan:
        yield made


class Load:
    """What calls all the time, and whether any of it failed."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._names: list[str] = []
        # Each connection is short: new ones meet the new files at once.
        self.caller = SteadyCaller(
            site.cluster, site.bayplan.port, nodes=NODES, tls=site.context, calls_a_connection=10
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Pods arrive and the caller calls; in the end all are placed."""
        with arriving(self._site.cluster, rest_seconds=REST_SECONDS) as self._names, self.caller.running():
            yield

    def goes_on(self) -> None:
        """Wait until kube-scheduler and the caller have connected anew, and been answered."""
        names, answered = len(self._names), self.caller.answered
        wait_until(lambda: len(self._names) >= names + 2 * BURST, 60, what="two more bursts of pods")
        for name in self._names[names : names + 2 * BURST]:
            self._site.cluster.api.wait_bound(name)
        assert self.caller.answered > answered + 50
        self.check()

    def check(self) -> None:
        """No call failed so far, neither the caller's nor one of kube-scheduler's."""
        assert self.caller.failures == []
        assert self._site.cluster.api.items("events", fields="reason=FailedScheduling") == []
        assert "the TLS handshake with a caller failed" not in self._site.bayplan.log()

    def tell(self, what: str) -> str:
        """All pods are placed; what there was."""
        for name in self._names:
            self._site.cluster.api.wait_bound(name)
        self.check()
        check_places(self._site.cluster, self.caller)
        caller = self.caller
        return (
            f"\n{what}: {len(self._names)} pods of kube-scheduler, and {caller.answered} calls on"
            f" {caller.connected} connections beside it: none failed"
        )


def test_a_certificate_is_renewed_under_load(site: Site) -> None:
    load = Load(site)
    old = site.context()
    with site.scheduler():
        with load.running():
            load.goes_on()
            # Further away than the end of any of them: both pairs are renewed.
            site.run("renew", site.certs, "--before", "400d")
            site.hand_to_server()
            load.goes_on()
            site.hand_to_client()
            load.goes_on()
        assert site.lets_in(old), "the CA is the same"
        print(load.tell("a new certificate"))


@pytest.mark.big
@pytest.mark.parametrize(
    "server_first", [pytest.param(True, id="server first"), pytest.param(False, id="kube-scheduler first")]
)
def test_a_new_ca_takes_over_in_three_steps_under_load(site: Site, server_first: bool) -> None:
    """As docs/how-to/upgrade.md has it; within each step the order of the two sides does not matter."""
    load = Load(site)
    sides = [site.hand_to_server, site.hand_to_client]
    if not server_first:
        sides.reverse()
    old_sight, old_caller = site.context(), site.context()

    def step(flag: str) -> None:
        site.run("renew", site.certs, flag)
        for hand_out in sides:
            hand_out()
            load.goes_on()

    with load.running():
        with site.scheduler():
            load.goes_on()
            step("--rotate-ca")
        # It has read the old CA alone, once; from here on it knows both.
        with site.scheduler():
            load.goes_on()
            step("--reissue")
            old_caller.load_verify_locations(cafile=site.client.path("ca.crt"))
            assert site.lets_in(old_caller), "the old CA's callers are let in yet"
            step("--forget-old-ca")
    with site.scheduler():
        print(load.tell("a new CA"))

    assert site.lets_in(site.context())
    assert not site.lets_in(old_sight), "it knows the old CA alone, and refuses the server"
    assert not site.lets_in(old_caller), "it trusts the server, and is refused"


def test_kube_scheduler_that_was_not_restarted_does_not_trust_the_new_ca(site: Site) -> None:
    """Why the first step ends with a restart."""
    with site.scheduler(may_fail=True):
        site.run("renew", site.certs, "--rotate-ca")
        site.hand_to_server()
        site.hand_to_client()
        site.run("renew", site.certs, "--reissue")
        site.hand_to_server()
        site.hand_to_client()
        site.cluster.api.create_pod("p")

        said = site.cluster.api.wait_unschedulable("p", reason="SchedulerError")
        assert "certificate signed by unknown authority" in said
    with site.scheduler():
        assert site.cluster.api.wait_bound("p") == NODES[0]
