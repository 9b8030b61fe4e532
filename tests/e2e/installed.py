"""What ``bayplan render`` prints, applied to a real API server, and its containers as processes on loopback.

There is no kubelet: a ConfigMap becomes a folder, a Secret becomes another, ports and paths are replaced, and
what a pod would get from its account, a kubeconfig with a token of that account gives.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.helm_binary import require
from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.controlplane.scheduler import Scheduler
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import COMMAND, READY_SECONDS

Object = dict[str, Any]


def render(*arguments: str | Path) -> str:
    """What the command prints."""
    command = [str(COMMAND), "render", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def kubectl(cluster: ControlPlane, *arguments: str | Path, stdin: str = "") -> str:
    """What kubectl says, as the administrator of the cluster."""
    ended = subprocess.run(
        [str(require("kubectl")), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(cluster.directory),
            "KUBECONFIG": str(cluster.kubeconfig),
        },
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class Installed:
    """An installation, applied while its ``with`` block runs."""

    def __init__(self, cluster: ControlPlane, directory: Path, text: str) -> None:
        self._cluster = cluster
        self._directory = directory
        self._text = text
        self.objects: list[Object] = list(yaml.safe_load_all(text))
        self.port, self.ops_port = free_port(), free_port()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Applied for real; gone afterwards."""
        kubectl(self._cluster, "apply", "--server-side", "-f", "-", stdin=self._text)
        try:
            yield
        finally:
            kubectl(
                self._cluster, "delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=self._text
            )

    def files(self, name: str) -> Path:
        """A ConfigMap or a Secret as a pod would see it: a folder with a file for each key."""
        (found,) = [
            each
            for each in self.objects
            if each["kind"] in ("ConfigMap", "Secret") and each["metadata"]["name"] == name
        ]
        folder = self._directory / name
        folder.mkdir(exist_ok=True)
        for key, value in found["data"].items():
            content = base64.b64decode(value) if found["kind"] == "Secret" else value.encode()
            (folder / key).write_bytes(content)
        return folder

    def account(
        self, *, may: Mapping[str, str], namespace: str = "kube-system", name: str = "bayplan"
    ) -> Path:
        """A kubeconfig with a token of our account, once the API server knows of one of its rights."""
        api = self._cluster.api
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token = api.request("POST", path, body=request)["status"]["token"]
        review: Object = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{namespace}:{name}",
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": dict(may),
            },
        }
        reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        wait_until(
            lambda: api.request("POST", reviews, body=review)["status"]["allowed"],
            READY_SECONDS,
            what=f"the account may {may}",
        )
        document = yaml.safe_load(self._cluster.kubeconfig.read_text())
        document["users"][0]["user"] = {"token": token}
        document["contexts"][0]["context"]["namespace"] = namespace
        kubeconfig = self._directory / "account.kubeconfig"
        kubeconfig.write_text(json.dumps(document))
        return kubeconfig

    @contextmanager
    def bayplan(self, kubeconfig: Path, *, ready: bool = True) -> Iterator[Child]:
        """Our container: its command and arguments, with other addresses and places.

        Without `ready` the block begins as soon as it answers at all.
        """
        (workload,) = [each for each in self.objects if each["kind"] in ("Deployment", "DaemonSet")]
        spec = workload["spec"]["template"]["spec"]
        every = [*spec.get("initContainers", ()), *spec["containers"]]
        (container,) = [each for each in every if each["name"] == "bayplan"]
        folder = self.files("bayplan-config")
        config = folder / "bayplan.yaml"
        config.write_text(self.on_this_machine(config.read_text()))
        arguments = [text.replace("/etc/bayplan", str(folder)) for text in container["args"]]
        command = [
            COMMAND,
            *arguments,
            f"--kubeconfig={kubeconfig}",
            f"--ops-listen=127.0.0.1:{self.ops_port}",
            "--page-listen=off",
            *([f"--listen=127.0.0.1:{self.port}"] if arguments[0] == "serve" else []),
        ]
        child = Child("bayplan", command, log=self._directory / "bayplan.log")
        probe = container["readinessProbe" if ready else "livenessProbe"]["httpGet"]["path"]
        try:
            child.wait_until(lambda: self.ops(probe)[0] == 200, READY_SECONDS)
            self._cluster.api.watched.append(child)
            try:
                yield child
            finally:
                self._cluster.api.watched.remove(child)
        finally:
            child.stop()

    def ops(self, path: str) -> tuple[int, str]:
        """Ask the port of health and metrics; status and body, 0 where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ops_port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def kube_scheduler(self, kubeconfig: Path, text: str) -> Scheduler:
        """kube-scheduler with a rendered configuration, as the holder of the kubeconfig."""
        configuration: Object = yaml.safe_load(self.on_this_machine(text))
        configuration["clientConnection"] = {"kubeconfig": str(kubeconfig)}
        return Scheduler(
            self._cluster.binaries / "kube-scheduler",
            self._directory / "kube-scheduler",
            configuration=configuration,
            kubeconfig=kubeconfig,
            ca=self._cluster.ca,
            admin_token=self._cluster.admin_token,
            api=self._cluster.api,
        )

    def on_this_machine(self, text: str) -> str:
        """Paths of pods and hosts, and the address of the Service, as they are here."""
        for place, secret in (
            ("/etc/bayplan-tls", "bayplan-tls"),
            ("/etc/kubernetes/bayplan", "bayplan-client-tls"),
        ):
            if place in text:
                text = text.replace(place, str(self.files(secret)))
        for address in ("127.0.0.1:8888", "bayplan.kube-system.svc:8888"):
            text = text.replace(f"://{address}", f"://127.0.0.1:{self.port}")
        return text
