"""Reads kubeconfig files, and merges several into one."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from bayplan.client.errors import ConnectError
from bayplan.client.login import ExecConfig
from bayplan.kube.yaml import YamlError, read_documents, suggest

# The extension of a cluster with settings for its login program.
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class _Extension(Struct):
    name: str
    extension: Any = None


class Cluster(Struct, rename="kebab"):
    """``clusters[].cluster``."""

    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[_Extension] | None = None
    folder: Path = field(name="-folder", default=Path())
    """The folder of the kubeconfig, to which its paths are relative."""

    @property
    def exec_settings(self) -> Any:
        """The cluster's settings for a login program; ``None`` if there are none."""
        found = [e.extension for e in self.extensions or () if e.name == _EXEC_EXTENSION]
        return found[0] if found else None


class User(Struct, rename="kebab"):
    """``users[].user``."""

    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: ExecConfig | None = None
    folder: Path = field(name="-folder", default=Path())
    """The folder of the kubeconfig, to which its paths are relative."""

    @property
    def has_certificate(self) -> bool:
        """Whether the user has a client certificate."""
        return bool(self.client_certificate or self.client_certificate_data)


class _Context(Struct):
    cluster: str
    user: str = ""
    namespace: str = ""


class _NamedCluster(Struct):
    name: str
    cluster: Cluster


class _NamedUser(Struct):
    name: str
    user: User


class _NamedContext(Struct):
    name: str
    context: _Context


class _Kubeconfig(Struct, rename="kebab"):
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []
    current_context: str = ""


def read_kubeconfig(*paths: Path, context: str = "") -> tuple[Cluster, User, str]:
    """Cluster, user and namespace of a context; of several files, the first to define a name wins."""
    path = paths[0]
    config = _read(path)
    for other in paths[1:]:
        config = _merged(config, _read(other))
    wanted = context or config.current_context
    chosen = _pick("context", wanted, {c.name: c.context for c in config.contexts}, path)
    cluster = _pick("cluster", chosen.cluster, {c.name: c.cluster for c in config.clusters}, path)
    users = {u.name: u.user for u in config.users}
    user = _pick("user", chosen.user, users, path) if chosen.user else User()
    return cluster, user, chosen.namespace or "default"


def _read(path: Path) -> _Kubeconfig:
    try:
        documents = list(read_documents(path.read_bytes(), source=str(path)))
        config = msgspec.convert(documents[0].data if documents else {}, _Kubeconfig)
    except OSError as error:
        what = f"kubeconfig {path}: {error.strerror or error}"
        raise ConnectError(f"{what}; name another with --kubeconfig FILE") from error
    except (YamlError, msgspec.ValidationError) as error:
        raise ConnectError(f"kubeconfig {path}: {error}") from error
    folder = path.resolve().parent
    for named in config.clusters:
        named.cluster.folder = folder
    for user in config.users:
        user.user.folder = folder
    return config


def _merged(first: _Kubeconfig, second: _Kubeconfig) -> _Kubeconfig:
    # The last entry of a name wins below, so the first file is put last.
    return _Kubeconfig(
        clusters=[*second.clusters, *first.clusters],
        users=[*second.users, *first.users],
        contexts=[*second.contexts, *first.contexts],
        current_context=first.current_context or second.current_context,
    )


N = TypeVar("N")


def _pick(what: str, name: str, known: dict[str, N], path: Path) -> N:
    if not name:
        raise ConnectError(f"kubeconfig {path}: no current-context; give one with --context")
    if name not in known:
        raise ConnectError(f"kubeconfig {path}: no {what} {name!r}{suggest(name, known)}")
    return known[name]
