"""A control plane without controllers: etcd, kube-apiserver and, when asked for, schedulers.

There is no kubelet and no controller manager: nodes are objects that a test creates, bound pods
stay Pending, and what a controller would clean up stays.
"""

from __future__ import annotations

import http.client
import itertools
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from tests.controlplane.api import Api
from tests.controlplane.certs import Authority, KeyPair, make_ca, make_service_account_keys
from tests.controlplane.client import ApiError, Client, Json
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.controlplane.scheduler import Scheduler, scheduler_configuration
from tests.controlplane.waiting import wait_until

READY_SECONDS = 120.0

ISSUER = "https://kubernetes.default.svc"


@dataclass(frozen=True)
class OtherApiServer:
    """A second kube-apiserver on the same etcd, with the same certificates and tokens."""

    server: str
    child: Child

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It does nothing inside the block; its sockets stay open, and take in what is sent."""
        with self.child.frozen():
            yield


class ControlPlane:
    """A running etcd and kube-apiserver, inside its ``with`` block."""

    binaries: Path
    directory: Path
    ca: Authority
    server: str
    admin_token: str
    api: Api
    kubeconfig: Path
    etcd: Child
    etcd_url: str
    apiserver: Child

    def __init__(
        self, binaries: Path, *, apiserver_flags: Sequence[str] = (), apiserver_env: Mapping[str, str] = {}
    ) -> None:
        self.binaries = binaries
        self._flags = apiserver_flags
        self._env = apiserver_env
        self._stack = ExitStack()
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        """Start both, and return when objects can be created."""
        with ExitStack() as stack:
            temporary = tempfile.TemporaryDirectory(prefix="bayplan-controlplane-")
            self.directory = Path(stack.enter_context(temporary))
            self.ca = make_ca("bayplan-test-ca", self.directory / "certs")
            self.admin_token = secrets.token_hex(16)
            self.etcd_url = self._start_etcd(stack)
            self._configure_apiserver()
            stack.callback(self.api.close)
            stack.callback(self._stop_apiserver)
            self.start_apiserver()
            self._scheduler_kubeconfig = self._certificate_kubeconfig("system:kube-scheduler")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop both and delete their files."""
        self._stack.close()

    def start_apiserver(self) -> None:
        """Start it, also after it was killed: same port, same etcd; return when it is ready."""
        argv = [*self._apiserver_argv, f"--secure-port={self._port}"]
        log = self.directory / "kube-apiserver.log"
        self.apiserver = Child("kube-apiserver", argv, log=log, env=self._env)
        self.apiserver.wait_until(lambda: _apiserver_ready(self.api), READY_SECONDS)

    def save(self) -> Path:
        """A copy of all that etcd has now, for `restore`."""
        copy = self.directory / f"etcd-saved-{next(self._numbers)}"
        with self.etcd.frozen():
            shutil.copytree(self._etcd_data, copy)
        return copy

    def restore(self, saved: Path) -> None:
        """Bring back what was saved, as after a disaster; whatever came later was never there."""
        self.apiserver.stop()
        self.etcd.stop()
        shutil.rmtree(self._etcd_data)
        shutil.copytree(saved, self._etcd_data)
        self._run_etcd()
        self.start_apiserver()

    @contextmanager
    def other_apiserver(self, *flags: str) -> Iterator[OtherApiServer]:
        """A second one on a port of its own, ready; everything else here keeps to the first."""
        port, name = free_port(), f"kube-apiserver-{next(self._numbers)}"
        argv = [*self._apiserver_argv, f"--secure-port={port}", *flags]
        other = OtherApiServer(
            f"https://127.0.0.1:{port}", Child(name, argv, log=self.directory / f"{name}.log")
        )
        try:
            with Client(other.server, self.ca.cert, token=self.admin_token) as client:
                other.child.wait_until(lambda: _apiserver_ready(client), READY_SECONDS)
            yield other
        finally:
            other.child.stop()

    def check(self) -> None:
        """Raise `ChildDied`, with the tail of the log, unless both programs run."""
        self.etcd.check()
        self.apiserver.check()

    def recover(self) -> None:
        """Have the API server ready, also after a test that has left it dead or half started."""
        self.etcd.check()
        if self.apiserver.alive:
            self.apiserver.wait_until(lambda: _apiserver_ready(self.api), READY_SECONDS)
        else:
            self.start_apiserver()

    def scheduler(
        self,
        *,
        extenders: Sequence[Mapping[str, Any]] = (),
        profiles: Sequence[Mapping[str, Any]] | None = None,
        percentage_of_nodes_to_score: int | None = None,
        scheduler_name: str = "default-scheduler",
        pod_max_backoff_seconds: int = 1,
        verbosity: int = 2,
        configuration: Mapping[str, Any] | None = None,
        flags: Sequence[str] = (),
    ) -> Scheduler:
        """A kube-scheduler, to be started by ``with``.

        The top-level keys of `configuration` win over what the other arguments make: for
        testing a whole KubeSchedulerConfiguration that somebody else has written.
        """
        document = scheduler_configuration(
            extenders=extenders,
            profiles=profiles,
            percentage_of_nodes_to_score=percentage_of_nodes_to_score,
            scheduler_name=scheduler_name,
            pod_max_backoff_seconds=pod_max_backoff_seconds,
        )
        document |= configuration or {}
        document["clientConnection"] = {
            **document["clientConnection"],
            "kubeconfig": str(self._scheduler_kubeconfig),
        }
        return Scheduler(
            self.binaries / "kube-scheduler",
            self.directory / f"scheduler-{next(self._numbers)}",
            configuration=document,
            kubeconfig=self._scheduler_kubeconfig,
            ca=self.ca,
            admin_token=self.admin_token,
            api=self.api,
            flags=[f"-v={verbosity}", *flags],
        )

    def kubeconfig_for(
        self,
        user: str,
        rules: Sequence[Mapping[str, Any]] = (),
        *,
        credential: Literal["certificate", "token"] = "certificate",
    ) -> Path:
        """A kubeconfig of a user who may do what `rules` say, and nothing else.

        With ``token`` the user is the service account ``default/USER``, and the file holds a
        token of it. Asking again for the same user replaces the rules.
        """
        if credential == "token":
            path = self._token_kubeconfig(user)
            subject = {"kind": "ServiceAccount", "name": user, "namespace": "default"}
            self._grant(f"system:serviceaccount:default:{user}", rules, subject=subject)
        else:
            path = self._certificate_kubeconfig(user)
            self._grant(user, rules, subject={"kind": "User", "name": user})
        return path

    def client_for(self, user: str, rules: Sequence[Mapping[str, Any]] = ()) -> Client:
        """A client that acts as a user who may do what `rules` say, and nothing else."""
        self.kubeconfig_for(user, rules)
        return Client(self.server, self.ca.cert, certificate=self._certificate(user))

    def _start_etcd(self, stack: ExitStack) -> str:
        port, peer_port = free_port(), free_port()
        url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        self._etcd_port = port
        self._etcd_argv: list[str | Path] = [
            self.binaries / "etcd",
            "--name=only",
            f"--data-dir={self._etcd_data}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=only={peer_url}",
            # A single member still sits out the election timeout, a second, at its start.
            "--heartbeat-interval=10",
            "--election-timeout=100",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        stack.callback(self._stop_etcd)
        self._run_etcd()
        return url

    @property
    def _etcd_data(self) -> Path:
        return self.directory / "etcd"

    def _run_etcd(self) -> None:
        self.etcd = Child("etcd", self._etcd_argv, log=self.directory / "etcd.log")
        self.etcd.wait_until(lambda: _etcd_healthy(self._etcd_port), READY_SECONDS)

    def _configure_apiserver(self) -> None:
        self._port = free_port()
        self.server = f"https://127.0.0.1:{self._port}"
        serving = self.ca.issue("kube-apiserver", dns=["localhost"], ips=["127.0.0.1"], server=True)
        accounts = make_service_account_keys(self.directory / "certs")
        tokens = self.directory / "tokens.csv"
        tokens.write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        self._apiserver_argv: list[str | Path] = [
            self.binaries / "kube-apiserver",
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={serving.cert}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.ca.cert}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-signing-key-file={accounts.key}",
            f"--service-account-key-file={accounts.cert}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # A documentation address: it is never dialled, and without it the start fails
            # on a machine that has no default route.
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            # Both count on a controller manager.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--delete-collection-workers=8",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=1000",
            *self._flags,
        ]
        self.api = Api(self.server, self.ca.cert, token=self.admin_token)
        self.kubeconfig = write_kubeconfig(
            self.directory / "admin.kubeconfig",
            self.server,
            ca=self.ca.cert,
            user="admin",
            token=self.admin_token,
        )

    def _stop_apiserver(self) -> None:
        # The one that runs then: a test may have killed the first.
        self.apiserver.stop()

    def _stop_etcd(self) -> None:
        # The one that runs then, too.
        self.etcd.stop()

    def _certificate(self, user: str) -> KeyPair:
        return self.ca.issue(user, client=True)

    def _certificate_kubeconfig(self, user: str) -> Path:
        return write_kubeconfig(
            self._kubeconfig_path(user),
            self.server,
            ca=self.ca.cert,
            user=user,
            certificate=self._certificate(user),
        )

    def _token_kubeconfig(self, account: str) -> Path:
        metadata = {"name": account, "namespace": "default"}
        manifest = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        self.api.replace("serviceaccounts", account, manifest)
        path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        token = self.api.request("POST", path, body=request)["status"]["token"]
        return write_kubeconfig(
            self._kubeconfig_path(account),
            self.server,
            ca=self.ca.cert,
            user=account,
            token=token,
        )

    def _kubeconfig_path(self, user: str) -> Path:
        # A new file each time: whoever still reads the last one keeps what it was given.
        name = f"{user.replace(':', '-')}-{next(self._numbers)}.kubeconfig"
        return self.directory / name

    def _grant(self, user: str, rules: Sequence[Mapping[str, Any]], *, subject: Mapping[str, str]) -> None:
        """Bind a role to the user, and wait until the API server's authorizer has read it.

        The authorizer follows roles by a watch. The last rule is for a path that exists nowhere
        and is new each time: who may get it is judged by these very rules.
        """
        mark = f"/bayplan-test/{secrets.token_hex(8)}"
        name = f"test:{user}"
        group = "rbac.authorization.k8s.io"
        meta = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
        marked = [*rules, {"nonResourceURLs": [mark], "verbs": ["get"]}]
        role = {**meta, "kind": "ClusterRole", "rules": marked}
        self.api.replace("clusterroles", name, role)
        in_group = {} if subject["kind"] == "ServiceAccount" else {"apiGroup": group}
        binding = {
            **meta,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{**subject, **in_group}],
        }
        self.api.replace("clusterrolebindings", name, binding)
        review: Json = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "nonResourceAttributes": {"path": mark, "verb": "get"}},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        wait_until(
            lambda: self.api.request("POST", path, body=review)["status"]["allowed"],
            READY_SECONDS,
            what=f"the rights of {user} are known to the API server",
        )


def _etcd_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _apiserver_ready(client: Client) -> bool:
    """Ask /readyz, and for the namespaces, which a loop creates after that."""
    try:
        if client.text("GET", "/readyz") != "ok":
            return False
        names = {item["metadata"]["name"] for item in client.items("namespaces")}
    except (ApiError, OSError):
        return False
    return {"default", "kube-system"} <= names
