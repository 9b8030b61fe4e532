"""A small synchronous client of an API server: one keep-alive connection, JSON in and out."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from tests.controlplane.certs import KeyPair

Json = dict[str, Any]

# The API server closes connections that were idle for 90 s; a POST must not meet that moment.
IDLE_SECONDS = 30.0

PATHS = {
    "configmaps": "/api/v1/namespaces/{namespace}/configmaps",
    "events": "/api/v1/namespaces/{namespace}/events",
    "namespaces": "/api/v1/namespaces",
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/namespaces/{namespace}/pods",
    "serviceaccounts": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
    "poddisruptionbudgets": "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
}


class ApiError(Exception):
    """The API server answered with another status than 2xx."""

    def __init__(self, method: str, path: str, *, status: int, body: str) -> None:
        self.status = status
        self.body = body
        try:
            answer = json.loads(body)
            self.reason, self.message = str(answer["reason"]), str(answer["message"])
        except (ValueError, KeyError, TypeError):
            self.reason, self.message = "", body
        super().__init__(f"{method} {path}: {status} {self.reason}: {self.message}")


class Client:
    """Requests to one server, as one user.

    Not for several threads at once: they would share the connection.
    """

    def __init__(
        self,
        server: str,
        ca: Path,
        *,
        token: str | None = None,
        certificate: KeyPair | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        self.server = server
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        context = ssl.create_default_context(cafile=str(ca))
        if certificate is not None:
            context.load_cert_chain(certificate.cert, certificate.key)
        address = urlsplit(server)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=timeout_seconds, context=context
        )
        self._last_used = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._connection.close()

    def text(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        content_type: str = "application/json",
    ) -> str:
        """Send one request; the body of the answer, or `ApiError`."""
        return self.read(method, path, body=body, content_type=content_type).decode()

    def read(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        content_type: str = "application/json",
    ) -> bytes:
        """As `text`, for answers that are no text."""
        if time.monotonic() - self._last_used > IDLE_SECONDS:
            self.close()
        headers = {**self._headers, "Content-Type": content_type}
        payload = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, body=payload, headers=headers)
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        self._last_used = time.monotonic()
        if not 200 <= response.status < 300:
            raise ApiError(method, path, status=response.status, body=answer.decode(errors="replace"))
        return answer

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        content_type: str = "application/json",
    ) -> Json:
        """Send one request and decode its answer, a JSON object."""
        answer: Json = json.loads(self.text(method, path, body=body, content_type=content_type))
        return answer

    def create(self, resource: str, manifest: Mapping[str, Any], *, namespace: str = "default") -> Json:
        """Create an object; the server's version of it."""
        return self.request("POST", path_of(resource, namespace=namespace), body=manifest)

    def get(self, resource: str, name: str, *, namespace: str = "default") -> Json:
        """Read an object, or raise `ApiError` with status 404."""
        return self.request("GET", path_of(resource, name, namespace=namespace))

    def find(self, resource: str, name: str, *, namespace: str = "default") -> Json | None:
        """Read an object, or None if there is none."""
        try:
            return self.get(resource, name, namespace=namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def items(
        self,
        resource: str,
        namespace: str | None = "default",
        *,
        labels: str = "",
        fields: str = "",
    ) -> list[Json]:
        """List objects by label and field selector; `namespace=None` is all namespaces."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = urlencode({key: value for key, value in selectors.items() if value})
        path = path_of(resource, namespace=namespace)
        found: list[Json] = self.request("GET", f"{path}?{query}" if query else path)["items"]
        return found

    def patch(
        self,
        resource: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "default",
        subresource: str = "",
    ) -> Json:
        """Merge-patch an object or one of its subresources: None removes a key."""
        path = path_of(resource, name, namespace=namespace, subresource=subresource)
        return self.request("PATCH", path, body=patch, content_type="application/merge-patch+json")

    def replace(
        self, resource: str, name: str, manifest: Mapping[str, Any], *, namespace: str = "default"
    ) -> Json:
        """Create an object, or overwrite the one of that name."""
        try:
            return self.create(resource, manifest, namespace=namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        return self.request("PUT", path_of(resource, name, namespace=namespace), body=manifest)

    def delete(self, resource: str, name: str, *, namespace: str = "default") -> None:
        """Delete an object at once; one that does not exist is deleted already.

        There is no kubelet to end a grace period, hence none is given.
        """
        path = path_of(resource, name, namespace=namespace)
        try:
            self.request("DELETE", path, body={"gracePeriodSeconds": 0})
        except ApiError as error:
            if error.status != 404:
                raise

    def delete_all(self, resource: str, namespace: str = "default") -> None:
        """Delete every object of a resource, in one namespace if it has namespaces."""
        path = path_of(resource, namespace=namespace)
        self.request("DELETE", path, body={"gracePeriodSeconds": 0})


def path_of(
    resource: str,
    name: str = "",
    *,
    namespace: str | None = "default",
    subresource: str = "",
) -> str:
    """The path of a collection, an object or a subresource."""
    path = PATHS[resource]
    if namespace is None:
        path = path.replace("/namespaces/{namespace}", "")
    else:
        path = path.format(namespace=quote(namespace))
    return "/".join(part for part in (path, quote(name), subresource) if part)
