"""An installation under the rights that are printed for it, or under those with one verb taken away.

Each has a namespace, a scheduler name and a node of its own, so that several can be looked at side by side.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.api import PATIENCE_SECONDS, Api
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Child
from tests.controlplane.waiting import wait_until
from tests.e2e.fault_proxy import FaultProxy
from tests.e2e.installed import Installed

Json = dict[str, Any]

PLACE = "least-privilege"
"""The namespace and scheduler name that are rendered; each installation puts its own in their place."""
RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": f"/apis/{RBAC}/v1/clusterroles",
    "ClusterRoleBinding": f"/apis/{RBAC}/v1/clusterrolebindings",
    "Role": f"/apis/{RBAC}/v1/namespaces/{{}}/roles",
    "RoleBinding": f"/apis/{RBAC}/v1/namespaces/{{}}/rolebindings",
}
# The authority of the tests writes a certificate into a file of a fixed name.
ISSUING = threading.Lock()


@dataclass(frozen=True, order=True)
class Verb:
    """One verb on one resource."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}"

    @property
    def refusal(self) -> str:
        """How the API server says that it is missing."""
        return f'cannot {self.verb} resource "{self.resource}" in API group "{self.group}"'


def verbs_of(rules: Sequence[Mapping[str, Any]]) -> set[Verb]:
    """What the rules of a role allow."""
    return {
        Verb(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def without(rules: Sequence[Mapping[str, Any]], less: Verb) -> list[Json]:
    """The rules, each for one verb on one resource, except for the one that is taken away."""
    return [
        {**rule, "apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if Verb(group, resource, verb) != less
    ]


@dataclass
class Stand:
    """One installation, and who looks at it."""

    cluster: ControlPlane
    directory: Path
    text: str
    """What was rendered."""
    name: str
    less: Verb | None = None
    server: str = ""
    """Another API server for our process alone."""
    answer: str = field(default="", init=False)
    """What it said to us when we played kube-scheduler."""
    child: Child = field(init=False)

    def __post_init__(self) -> None:
        # A client is not for several threads.
        self.cluster = copy.copy(self.cluster)
        self.cluster.api = Api(self.cluster.server, self.cluster.ca.cert, token=self.cluster.admin_token)
        self.api = self.cluster.api
        self.directory.mkdir()
        self.installed = Installed(self.cluster, self.directory, self.text.replace(PLACE, self.name))

    @contextmanager
    def running(self, proxy: FaultProxy | None = None) -> Iterator[Child]:
        """Our process, up and perhaps not ready, with a token of the account."""
        kubeconfig = self.kubeconfig(
            f"https://127.0.0.1:{proxy.server_address[1]}" if proxy is not None else self.server
        )
        with self.installed.bayplan(kubeconfig, ready=False) as self.child:
            yield self.child

    @contextmanager
    def proxied(self) -> Iterator[FaultProxy]:
        """A proxy before the API server."""
        with ExitStack() as stack:
            with ISSUING:
                proxy = stack.enter_context(FaultProxy(self.cluster, self.directory))
            yield proxy

    def grant(self) -> None:
        """Make the account with its rights, and wait until the API server knows of them all."""
        granted: set[Verb] = set()
        if self.lease_namespace != self.name:
            # Nobody makes it for us: it is somebody else's.
            elsewhere = {"kind": "Namespace", "metadata": {"name": self.lease_namespace}}
            self.api.request("POST", _PATHS["Namespace"], body={"apiVersion": "v1", **elsewhere})
        for one in self.installed.objects:
            if one["kind"] not in _PATHS:
                continue
            if one["kind"].endswith("Role"):
                if self.less is not None:
                    one["rules"] = without(one["rules"], self.less)
                granted |= verbs_of(one["rules"])
            path = _PATHS[one["kind"]].format(one["metadata"].get("namespace"))
            self.api.request("POST", path, body=one)
        wait_until(
            lambda: all(self._may(verb) for verb in granted),
            PATIENCE_SECONDS,
            what="the API server knows the rights",
        )
        assert self.less is None or not self._may(self.less), "another role allows it, too"

    def kubeconfig(self, server: str = "") -> Path:
        """A kubeconfig with a token of the account."""
        path = f"/api/v1/namespaces/{self.name}/serviceaccounts/bayplan/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.api.request("POST", path, body=body)["status"]["token"]
        document = yaml.safe_load(self.cluster.kubeconfig.read_text())
        document["users"][0]["user"] = {"token": token}
        document["contexts"][0]["context"]["namespace"] = self.name
        document["clusters"][0]["cluster"]["server"] = server or self.cluster.server
        kubeconfig = self.directory / "account.kubeconfig"
        kubeconfig.write_text(json.dumps(document))
        return kubeconfig

    def log(self) -> str:
        """What our process has logged; it writes JSON."""
        return self.child.log().replace('\\"', '"')

    def readyz(self) -> str:
        """What ``/readyz`` says."""
        return self.installed.ops("/readyz?verbose")[1]

    def ready(self) -> bool:
        """Whether it is ready."""
        return self.installed.ops("/readyz")[0] == 200

    def wait_ready(self) -> None:
        """Wait until it is."""
        wait_until(self.ready, PATIENCE_SECONDS, what="it is ready", explain=self.child.log_tail)

    def events(self) -> str:
        """What the events of our pods say."""
        every = self.api.items("events")
        ours = [one for one in every if one["involvedObject"]["name"].startswith(f"{self.name}-")]
        return "\n".join(f"{one['reason']}: {one.get('message', '')}" for one in ours)

    @property
    def lease_namespace(self) -> str:
        """Where the Lease is: where we may hold one."""
        roles = [one for one in self.installed.objects if one["kind"] == "Role"]
        return str(roles[0]["metadata"]["namespace"]) if roles else self.name

    def holder(self) -> str:
        """Who holds the Lease."""
        found = self.api.find("leases", "bayplan", namespace=self.lease_namespace)
        return found["spec"].get("holderIdentity", "") if found else ""

    def pod(self, name: str, **settings: Any) -> Json:
        """A pod of ours that can be on our node alone."""
        spec = {"scheduler_name": self.name, "node_selector": {"of": self.name}, **settings}
        return self.api.create_pod(f"{self.name}-{name}", **spec)

    def _may(self, right: Verb) -> bool:
        resource, _, subresource = right.resource.partition("/")
        named = {"name": "bayplan"} if resource == "leases" and right.verb != "create" else {}
        attributes = {"verb": right.verb, "group": right.group, "resource": resource, **named}
        if resource == "leases":
            attributes["namespace"] = self.lease_namespace
        spec = {
            "user": f"system:serviceaccount:{self.name}:bayplan",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {**attributes, "subresource": subresource},
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        allowed: bool = self.api.request("POST", REVIEWS, body=review)["status"]["allowed"]
        return allowed
