"""Asking the API server what a user may: reviews, which change nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import ApiClient
from bayplan.doctor.rights import WIDE, Right, Rights

_API = "/apis/authorization.k8s.io/v1"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


class _Named(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespace: str = ""


class _Binding(msgspec.Struct, rename="camel"):
    metadata: _Named
    role_ref: _Named
    subjects: list[_Named] | None = None


class _Bindings(msgspec.Struct):
    items: list[_Binding] | None = None


Account = tuple[str, str]
"""Namespace and name of a service account."""


async def ask_rights(
    client: ApiClient, accounts: Mapping[Account, Sequence[Right]], own: Sequence[Right], unseen: list[str]
) -> list[Rights]:
    """Of the service accounts of our pods, each with what it needs; of the user of the kubeconfig, who needs
    ``own``, where there are none.
    """
    try:
        if not accounts:
            missing, wide = await _reviewed(client, None, own)
            return [Rights("the user of the kubeconfig", "", missing, wide, own=True)]
        bindings = await _cluster_admins(client)
        found = []
        for (namespace, name), needed in sorted(accounts.items()):
            missing, wide = await _reviewed(client, (namespace, name), needed)
            place = f"serviceaccount {namespace}/{name}"
            admin = bindings.get((namespace, name), []) if wide else []
            found.append(Rights(f"service account {namespace}/{name}", place, missing, wide, admin))
        return found
    except ApiError as error:
        if error.status != 403:
            raise
        unseen.append(f"rights: {error.message}")
        return []
    except msgspec.MsgspecError as error:
        raise ConnectError(
            f"asking for rights: the answer is not what an API server sends: {error}"
        ) from error


async def _reviewed(
    client: ApiClient, account: Account | None, needed: Sequence[Right]
) -> tuple[list[Right], list[Right]]:
    """The rights that are missing, and those that are too many; the widest alone where it is there."""
    missing = [right for right in needed if not await _may(client, account, right)]
    wide = [right for right in WIDE if await _may(client, account, right)]
    return missing, wide[:1]


async def _may(client: ApiClient, account: Account | None, right: Right) -> bool:
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
        "name": right.name,
    }
    spec: dict[str, Any] = {"resourceAttributes": attributes}
    kind, path = "SelfSubjectAccessReview", f"{_API}/selfsubjectaccessreviews"
    if account is not None:
        namespace, name = account
        kind, path = "SubjectAccessReview", f"{_API}/subjectaccessreviews"
        spec["user"] = f"system:serviceaccount:{namespace}:{name}"
        spec["groups"] = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ]
        if right.resource == "leases":
            attributes["namespace"] = right.namespace or namespace
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = await client.create(path, body)
    return msgspec.json.decode(answer, type=_Review).status.allowed


async def _cluster_admins(client: ApiClient) -> dict[Account, list[str]]:
    """The bindings that make service accounts cluster-admin, by account."""
    try:
        body = await client.request("GET", _BINDINGS, doing="listing ClusterRoleBindings")
    except ApiError as error:
        if error.status != 403:
            raise
        return {}
    found: dict[Account, list[str]] = {}
    for binding in msgspec.json.decode(body, type=_Bindings).items or ():
        if binding.role_ref.name != "cluster-admin":
            continue
        for subject in binding.subjects or ():
            if subject.kind == "ServiceAccount":
                found.setdefault((subject.namespace, subject.name), []).append(binding.metadata.name)
    return found
