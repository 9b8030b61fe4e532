"""How to reach the API server: from a kubeconfig, or from inside a pod."""

import base64
import binascii
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from bayplan.client.errors import ConnectError
from bayplan.client.login import ExecConfig, ExecLogin
from bayplan.kube.yaml import YamlError, read_documents, suggest

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class _Cluster(Struct, rename="kebab"):
    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    folder: Path = field(name="-folder", default=Path())
    """Where the file is: paths in it start there."""


class _User(Struct, rename="kebab"):
    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: ExecConfig | None = None
    folder: Path = field(name="-folder", default=Path())
    """Where the file is: paths in it start there."""


class _Context(Struct):
    cluster: str
    user: str = ""


class _NamedCluster(Struct):
    name: str
    cluster: _Cluster


class _NamedUser(Struct):
    name: str
    user: _User


class _NamedContext(Struct):
    name: str
    context: _Context


class _Kubeconfig(Struct, rename="kebab"):
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []
    current_context: str = ""


@dataclass(frozen=True)
class Connection:
    """Everything a request to the API server needs."""

    server: str
    tls: ssl.SSLContext | None
    token: str = ""
    token_file: Path | None = None
    server_name: str | None = None
    login: ExecLogin | None = None

    def bearer(self) -> str:
        """The token to send, or ``""``; a file is read each time, since Kubernetes replaces it.

        Blocks for as long as a program takes that has to be run for it.
        """
        if self.login is not None:
            return self.login.token()
        if self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text().strip()
        except OSError as error:
            raise ConnectError(f"{self.token_file}: {error.strerror or error}") from error


def default_kubeconfigs() -> list[Path]:
    """The files of ``$KUBECONFIG`` that exist, or ``~/.kube/config``, as kubectl looks for them."""
    named = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    there = [path for path in named if path.exists()]
    return there or named[:1] or [Path.home() / ".kube" / "config"]


def from_kubeconfig(*paths: Path, context: str = "") -> Connection:
    """The connection that a kubeconfig describes; of several files, the first to name a thing wins."""
    path = paths[0]
    config = _read(path)
    for other in paths[1:]:
        config = _merged(config, _read(other))
    wanted = context or config.current_context
    chosen = _pick("context", wanted, {c.name: c.context for c in config.contexts}, path)
    cluster = _pick("cluster", chosen.cluster, {c.name: c.cluster for c in config.clusters}, path)
    users = {u.name: u.user for u in config.users}
    user = _pick("user", chosen.user, users, path) if chosen.user else _User()
    try:
        login = ExecLogin(user.exec, folder=user.folder) if user.exec else None
    except ValueError as error:
        raise ConnectError(f"kubeconfig {path}: {error}") from error
    return Connection(
        server=cluster.server.rstrip("/"),
        tls=_tls(cluster, user) if cluster.server.startswith("https:") else None,
        token=user.token,
        token_file=user.folder / user.token_file if user.token_file and not user.token else None,
        server_name=cluster.tls_server_name or None,
        login=login,
    )


def _read(path: Path) -> _Kubeconfig:
    try:
        documents = list(read_documents(path.read_bytes(), source=str(path)))
        config = msgspec.convert(documents[0].data if documents else {}, _Kubeconfig)
    except OSError as error:
        raise ConnectError(f"kubeconfig {path}: {error.strerror or error}") from error
    except (YamlError, msgspec.ValidationError) as error:
        raise ConnectError(f"kubeconfig {path}: {error}") from error
    folder = path.resolve().parent
    for named in config.clusters:
        named.cluster.folder = folder
    for user in config.users:
        user.user.folder = folder
    return config


def _merged(first: _Kubeconfig, second: _Kubeconfig) -> _Kubeconfig:
    # Looked up by name from the end, so what comes first is put last.
    return _Kubeconfig(
        clusters=[*second.clusters, *first.clusters],
        users=[*second.users, *first.users],
        contexts=[*second.contexts, *first.contexts],
        current_context=first.current_context or second.current_context,
    )


def in_cluster() -> Connection:
    """The connection of a pod, from its service account."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConnectError("not in a cluster: KUBERNETES_SERVICE_HOST is not set; use --kubeconfig")
    try:
        tls = ssl.create_default_context(cafile=str(_SERVICE_ACCOUNT / "ca.crt"))
    except OSError as error:
        raise ConnectError(f"{_SERVICE_ACCOUNT / 'ca.crt'}: {error.strerror or error}") from error
    bracketed = f"[{host}]" if ":" in host else host
    return Connection(f"https://{bracketed}:{port}", tls, token_file=_SERVICE_ACCOUNT / "token")


N = TypeVar("N")


def _pick(what: str, name: str, known: dict[str, N], path: Path) -> N:
    if not name:
        raise ConnectError(f"kubeconfig {path}: no current-context; give one with --context")
    if name not in known:
        raise ConnectError(f"kubeconfig {path}: no {what} {name!r}{suggest(name, known)}")
    return known[name]


def _tls(cluster: _Cluster, user: _User) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context()
        if cluster.certificate_authority_data:
            context = ssl.create_default_context(cadata=_decoded(cluster.certificate_authority_data))
        elif cluster.certificate_authority:
            context = ssl.create_default_context(cafile=str(cluster.folder / cluster.certificate_authority))
        if cluster.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _load_client_certificate(context, user)
    except (OSError, ValueError) as error:
        raise ConnectError(f"kubeconfig: a certificate or key cannot be read: {error}") from error
    return context


def _load_client_certificate(context: ssl.SSLContext, user: _User) -> None:
    if not user.client_certificate and not user.client_certificate_data:
        return
    folder = user.folder
    # Python loads key pairs from files only; what is written here exists for a moment, for us alone.
    with tempfile.TemporaryDirectory() as scratch:
        cert = _pem(user.client_certificate_data, folder / user.client_certificate, Path(scratch, "cert.pem"))
        key = _pem(user.client_key_data, folder / user.client_key, Path(scratch, "key.pem"))
        context.load_cert_chain(cert, key, password="")


def _pem(data: str, file: Path, scratch: Path) -> Path:
    """A file with the PEM; data inside the kubeconfig wins over a file, as with kubectl."""
    if not data:
        return file
    scratch.touch(mode=0o600)
    scratch.write_text(_decoded(data))
    return scratch


def _decoded(data: str) -> str:
    try:
        text = base64.b64decode("".join(data.split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"not base64 of a PEM file: {error}") from error
    # An empty CA would mean that of the system: anybody's certificate.
    if not text.strip():
        raise ValueError("base64 of nothing")
    return text
