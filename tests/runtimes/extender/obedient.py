"""A policy that does what the pod's annotations say, and servers that run it."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from bayplan.config.check import load_checked
from bayplan.config.flags import Flags
from bayplan.kube.yaml import read_documents
from bayplan.runtimes.extender.options import Options, options_from
from bayplan.runtimes.extender.serve import Server
from bayplan.testing import make_cluster, make_node

POLICY = '''
import json
import multiprocessing
import os
import pathlib
import re
import time

import bayplan


@bayplan.filter
def obeys(pod, nodes):
    obey(pod)
    refused = json.loads(pod.annotations.get("refuse", "{}"))
    return {name: reason(refused[name]) for name in nodes.names if name in refused}


@bayplan.score(range=(0, 100))
def scores(pod, nodes):
    obey(pod)
    given = json.loads(pod.annotations.get("score", "{}"))
    return [float(given.get(name, 0)) for name in nodes.names]


@bayplan.protect
def guards(pod, victim):
    obey(pod)
    return victim.labels.get("protect") == "true"


def reason(text):
    return bayplan.Reason(text.removeprefix("!"), preemptible=text.startswith("!"))


def obey(pod):
    what = pod.annotations.get("do")
    if what == "loop":
        while True:
            pass
    if what == "sleep":
        time.sleep(float(pod.annotations["seconds"]))
    if what == "wait":
        while not pathlib.Path(pod.annotations["file"]).exists():
            time.sleep(0.01)
    if what == "hold the interpreter":
        re.match("(a+)+$", "a" * 64 + "b")
    if what == "raise":
        raise ValueError(pod.annotations["text"])
    if what == "panic":
        raise Panic
    if what == "exit":
        raise SystemExit(3)
    if what == "fork":
        child = os.fork()
        if child:
            pathlib.Path(pod.annotations["file"]).write_text(str(child))
        else:
            time.sleep(float(pod.annotations["seconds"]))
    if what == "terminate a process":
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        process.start()
        process.terminate()
        process.join(2)
        pathlib.Path(pod.annotations["file"]).write_text(str(process.exitcode))


class Panic(BaseException):
    """As a library in Rust raises it."""
'''

OTHER = """
import bayplan

@bayplan.filter
def labelled(pod, node):
    if pod.labels.get("pick"):
        return node.name == pod.labels["pick"] or "not picked"
"""


def write_config(folder: Path, *, entry: dict[str, Any] | None = None, **extender: Any) -> Path:
    """The obedient policy and a configuration that names it; ``extender`` is that section.

    Every answer tells why nodes were refused, so that tests can look at that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "obedient.py").write_text(POLICY)
    (folder / "other.py").write_text(OTHER)
    config = {
        "apiVersion": "bayplan.dev/v1",
        "kind": "BayplanConfiguration",
        "policies": [{"use": "obedient.py", **(entry or {})}, {"use": "other.py"}],
        "extender": {
            "listen": "127.0.0.1:0",
            "opsListen": "127.0.0.1:0",
            "answer": {"failedNodes": "always"},
            **extender,
        },
        "page": {"listen": "off"},
    }
    path = folder / "bayplan.yaml"
    path.write_text(yaml.safe_dump(config))
    assert list(read_documents(path.read_bytes(), source=str(path)))
    return path


def make_options(
    folder: Path,
    *,
    view: Iterable[str] | None = (),
    entry: dict[str, Any] | None = None,
    **extender: Any,
) -> Options:
    """Options as the configuration gives them, over a cluster of these nodes; ``None`` is no cluster."""
    loaded, problems = load_checked([], Flags(config=write_config(folder, entry=entry, **extender)))
    assert problems == []
    options = options_from(loaded, version="test")
    snapshot = None if view is None else make_cluster([make_node(name) for name in view])
    return replace(options, snapshot=snapshot, watch_interpreter=False)


@contextlib.asynccontextmanager
async def serving(folder: Path, **options: Any) -> AsyncIterator[Server]:
    """A server in this process, with the obedient policy."""
    async with Server(make_options(folder, **options)).running() as server:
        yield server
