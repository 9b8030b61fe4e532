"""How to reach the API server: from a kubeconfig, or from inside a pod."""

import base64
import os
import ssl
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bayplan.client.errors import ConnectError
from bayplan.client.kept_file import KeptFile
from bayplan.client.kubeconfig import Cluster, User, read_kubeconfig
from bayplan.client.login import Access, ExecLogin
from bayplan.client.tls import FileContext, client_context, pem, show_certificate

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Connection:
    """Everything a request to the API server needs."""

    server: str
    tls: ssl.SSLContext | None
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    server_name: str | None = None
    login: ExecLogin | None = None
    proxy: str | None = field(default=None, repr=False)
    """The URL of an HTTP proxy, perhaps with a password in it."""
    namespace: str = "default"
    """The namespace of our own objects: that of the kubeconfig's context, or of the pod we run in."""
    tls_files: FileContext | None = None
    """The reloading TLS context, if it comes from files; ``tls`` is its first state."""

    @cached_property
    def _token_in_file(self) -> KeptFile:
        assert self.token_file is not None, "asked only where there is one"
        return KeptFile(self.token_file)

    def access(self) -> Access:
        """The credentials of a request; files are read each time, since Kubernetes replaces them.

        Blocks while a login program runs.
        """
        if self.login is not None:
            return self.login.access()
        tls = self.tls_files.current() if self.tls_files else self.tls
        if self.token_file is None:
            return Access(self.token, tls)
        try:
            return Access(self._token_in_file.content().decode().strip(), tls)
        except OSError as error:
            raise ConnectError(f"{self.token_file}: {error.strerror or error}") from error


def default_kubeconfigs() -> list[Path]:
    """The files of ``$KUBECONFIG`` that exist, or ``~/.kube/config``, as kubectl looks for them."""
    named = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    there = [path for path in named if path.exists()]
    return there or named[:1] or [Path.home() / ".kube" / "config"]


def from_kubeconfig(*paths: Path, context: str = "") -> Connection:
    """The connection of a kubeconfig; of several files, the first to define a name wins."""
    cluster, user, namespace = read_kubeconfig(*paths, context=context)
    if not cluster.server.startswith(("https://", "http://")):
        raise ConnectError(
            f"kubeconfig {paths[0]}: server {cluster.server!r} is no address, such as https://127.0.0.1:6443:"
            " it begins with https:// or http://"
        )
    try:
        files = FileContext(_files(cluster, user), lambda: _tls(cluster, *_pair(user)))
        return Connection(
            server=cluster.server.rstrip("/"),
            tls=files.current(),
            tls_files=files,
            token=user.token,
            token_file=user.folder / user.token_file if user.token_file and not user.token else None,
            server_name=cluster.tls_server_name or None,
            login=_login(cluster, user),
            proxy=_proxy(cluster.proxy_url),
            namespace=namespace,
        )
    except ValueError as error:
        raise ConnectError(f"kubeconfig {paths[0]}: {error}") from error


def is_pod() -> bool:
    """Whether this process seems to run in a pod: Kubernetes tells each container where the API server is."""
    return all(_api_server())


def _api_server() -> tuple[str, str]:
    return os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")


def in_cluster() -> Connection:
    """The connection of a pod, from its service account."""
    host, port = _api_server()
    if not is_pod():
        raise ConnectError("not in a cluster: KUBERNETES_SERVICE_HOST is not set; use --kubeconfig")
    authority = _SERVICE_ACCOUNT / "ca.crt"
    try:
        files = FileContext([authority], lambda: ssl.create_default_context(cafile=str(authority)))
    except OSError as error:
        raise ConnectError(f"{authority}: {error.strerror or error}") from error
    bracketed = f"[{host}]" if ":" in host else host
    return Connection(
        f"https://{bracketed}:{port}",
        files.current(),
        tls_files=files,
        token_file=_SERVICE_ACCOUNT / "token",
        namespace=_own_namespace(),
    )


def _own_namespace() -> str:
    try:
        return (_SERVICE_ACCOUNT / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"


def _authority(cluster: Cluster) -> str:
    if not cluster.certificate_authority and not cluster.certificate_authority_data:
        return ""
    return pem(cluster.certificate_authority_data, cluster.folder / cluster.certificate_authority)


def _pair(user: User) -> tuple[str, str]:
    if not user.has_certificate:
        return "", ""
    return (
        pem(user.client_certificate_data, user.folder / user.client_certificate),
        pem(user.client_key_data, user.folder / user.client_key),
    )


def _files(cluster: Cluster, user: User) -> list[Path]:
    """The files that are read; inline data takes precedence over them."""
    named = [
        (cluster.folder, cluster.certificate_authority, cluster.certificate_authority_data),
        (user.folder, user.client_certificate, user.client_certificate_data),
        (user.folder, user.client_key, user.client_key_data),
    ]
    return [folder / path for folder, path, data in named if path and not data]


def _tls(cluster: Cluster, certificate_pem: str, key_pem: str) -> ssl.SSLContext | None:
    if not cluster.server.startswith("https:"):
        return None
    authority_pem = _authority(cluster)
    try:
        context = client_context(authority_pem=authority_pem, verify=not cluster.insecure_skip_tls_verify)
        if certificate_pem:
            show_certificate(context, certificate_pem=certificate_pem, key_pem=key_pem)
    except OSError as error:
        raise ValueError(f"a certificate or key cannot be read: {error}") from error
    return context


def _login(cluster: Cluster, user: User) -> ExecLogin | None:
    # As with kubectl, credentials in the kubeconfig itself take precedence over the login program.
    if user.exec is None or user.token or user.token_file or user.has_certificate:
        return None

    def make_tls(certificate_pem: str, key_pem: str) -> FileContext:
        return FileContext(_files(cluster, User()), lambda: _tls(cluster, certificate_pem, key_pem))

    return ExecLogin(user.exec, folder=user.folder, make_tls=make_tls, cluster=lambda: _described(cluster))


def _described(cluster: Cluster) -> dict[str, Any]:
    """The cluster as ``spec.cluster`` of an ``ExecCredential``: as in a kubeconfig, with the CA inline."""
    fields = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(_authority(cluster).encode()).decode(),
        "proxy-url": cluster.proxy_url,
        "config": cluster.exec_settings,
    }
    return {key: value for key, value in fields.items() if value not in ("", False, None)}


def _proxy(url: str) -> str | None:
    if not url:
        return None
    parts = urlsplit(url)
    # A proxy's URL may contain a password, which must not be logged.
    shown = f"proxy-url {parts.scheme}://{parts.hostname or ''}"
    if parts.scheme.startswith("socks"):
        raise ValueError(f"{shown}: SOCKS proxies are not supported; use an http:// or https:// proxy")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"{shown}: want http://host:port or https://host:port")
    return url
