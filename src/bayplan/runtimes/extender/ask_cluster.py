"""Asks the servers in a cluster through the API server's pod proxy, so nothing else need reach them.

The API server consumes ``Authorization``, so the page's token goes in a header of its own.
"""

import asyncio
from pathlib import Path

import msgspec

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import PODS, ApiClient
from bayplan.config.cluster import open_cluster
from bayplan.config.flags import Flags
from bayplan.config.v1 import ClusterSection
from bayplan.kube.pod import Pod
from bayplan.runtimes.extender.ask import AskError
from bayplan.runtimes.extender.ask_why import (
    TOKEN_HEADER,
    Reply,
    WhyOrProblem,
    newest,
    refused,
    understood,
    why_path,
)

_TIMEOUT_SECONDS = 10.0
_HINT = (
    "\nThis needs the right to `get` `pods/proxy`, and a page that listens beyond loopback"
    " (`page: {listen: 0.0.0.0:8890, tokenFile: ...}`); --port is the page's."
)


def ask_cluster(flags: Flags, key: str, *, selector: str, port: int, weight: float, token: str = "") -> Reply:
    """Ask every pod that the selector finds in the cluster about the pod ``namespace/name``."""
    section = ClusterSection(
        source="in-cluster" if flags.in_cluster else "kubeconfig",
        kubeconfig=str(flags.kubeconfig or ""),
        context=flags.context or "",
    )
    _, connection = open_cluster(section, Path())
    assert connection is not None, "both lead to an API server"

    async def ask_all() -> dict[str, WhyOrProblem]:
        async with ApiClient(connection) as client:
            pods = await _servers(client, selector)
            asking = (_ask(client, pod, key, port=port, weight=weight, token=token) for pod in pods)
            said = await asyncio.gather(*asking)
            return {f"pod {pod.key}": text for pod, text in zip(pods, said, strict=True)}

    return newest(key, asyncio.run(ask_all()), hint=_HINT)


async def _servers(client: ApiClient, selector: str) -> list[Pod]:
    doing = f"looking for pods with {selector}"
    body = await client.request("GET", PODS.path, doing=doing, params={"labelSelector": selector})
    try:
        pods = PODS.page.decode(body).items or []
    except msgspec.MsgspecError as error:
        raise ConnectError(f"{doing}: the answer is not what an API server sends: {error}") from error
    placed = [pod for pod in pods if pod.node_name and not pod.finished]
    if not placed:
        raise AskError(f"no pod with {selector} runs in the cluster; --selector names other labels")
    return placed


async def _ask(
    client: ApiClient, pod: Pod, key: str, *, port: int, weight: float, token: str
) -> WhyOrProblem:
    proxy = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}:{port}/proxy"
    try:
        body = await client.request(
            "GET",
            f"{proxy}{why_path(key)}",
            doing=f"asking pod {pod.key}",
            params={"weight": f"{weight:g}"},
            timeout_seconds=_TIMEOUT_SECONDS,
            headers={TOKEN_HEADER: token} if token else None,
        )
    except ApiError as error:
        return refused(error.status, error.message)
    except ConnectError as error:
        return str(error)
    return understood(body)
