"""The peer of the state benchmark: a cache as one writes it first, a dict of what `json` makes of objects.

    python -m bench.state_naive SERVER CA

It reads the same lines with the same HTTP library on the same event loop as Bayplan, and does nothing else:
no node table, no counts, no answers. It prints what it has when it has all, and at each pod that is new then.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import Any

import aiohttp

from bayplan.runtimes.fast_loop import run_in_fast_loop

_WATCH = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

Objects = dict[str, dict[str, Any]]


async def follow(session: aiohttp.ClientSession, url: str, objects: Objects, listed: asyncio.Event) -> None:
    """Keep a copy of what is there."""
    async with session.get(url, params=_WATCH) as response:
        rest = b""
        async for chunk in response.content.iter_any():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                _apply(json.loads(line), objects, listed)


def _apply(event: dict[str, Any], objects: Objects, listed: asyncio.Event) -> None:
    if event["type"] == "BOOKMARK":
        listed.set()
        return
    item = event["object"]
    key = f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
    if event["type"] == "DELETED":
        objects.pop(key, None)
        return
    objects[key] = item
    if event["type"] == "ADDED" and listed.is_set():
        print("pods", len(objects), flush=True)


async def main(server: str, ca: str) -> None:
    """Follow nodes and pods until somebody ends it."""
    nodes: Objects = {}
    pods: Objects = {}
    every_node, every_pod = asyncio.Event(), asyncio.Event()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca))
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(follow(session, f"{server}/api/v1/nodes", nodes, every_node))
        group.create_task(follow(session, f"{server}/api/v1/pods", pods, every_pod))
        await every_node.wait()
        await every_pod.wait()
        print("nodes", len(nodes), "pods", len(pods), flush=True)


if __name__ == "__main__":
    run_in_fast_loop(lambda: main(*sys.argv[1:3]))
