"""Looking at an API server that is not as it should be: another time, another protocol, locked doors."""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bayplan.client.connect import from_kubeconfig
from bayplan.client.errors import ConnectError
from bayplan.doctor.cluster import Cluster
from bayplan.doctor.files import Given
from bayplan.doctor.live import look
from bayplan.doctor.setting import Setting, Version
from tests.client.serving import serving, write_kubeconfig


@dataclass
class ApiServer:
    """Answers what doctor asks: no nodes, no pods, every right."""

    ahead_seconds: float = 0.0
    version: Any = field(default_factory=lambda: {"gitVersion": "v1.34.11"})
    forbidden: tuple[str, ...] = ()
    review: Any = field(default_factory=lambda: {"status": {"allowed": False}})
    nodes: tuple[Any, ...] = ()
    config_maps: tuple[Any, ...] = ()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request."""
        date = datetime.now(UTC) + timedelta(seconds=self.ahead_seconds)
        headers = {"Date": format_datetime(date, usegmt=True)}
        if any(request.path.endswith(path) for path in self.forbidden):
            return web.json_response({"message": f"{request.path} is forbidden"}, status=403)
        if request.path == "/version":
            return web.json_response(self.version, headers=headers)
        if "review" in request.path:
            return web.json_response(self.review, headers=headers)
        kinds = {"nodes": self.nodes, "configmaps": self.config_maps}
        items = kinds.get(request.path.rpartition("/")[2], ())
        return web.json_response({"items": items, "metadata": {}}, headers=headers)


async def looked_at(server: ApiServer, folder: Path, **options: Any) -> tuple[Cluster, Setting]:
    async with serving(server.handle) as url:
        connection = from_kubeconfig(write_kubeconfig(folder, cluster={"server": url}))
        settings = {"fixed_version": False, **options}
        return await asyncio.to_thread(look, connection, Given(), Setting(), **settings)


@pytest.mark.parametrize("ahead", [pytest.param(600, id="ahead"), pytest.param(-600, id="behind")])
async def test_the_clock_of_the_server_is_compared_with_ours(ahead: float, tmp_path: Path) -> None:
    cluster, _ = await looked_at(ApiServer(ahead_seconds=ahead), tmp_path)

    assert cluster.skew_seconds == pytest.approx(ahead, abs=60)


async def test_version_and_nodes_are_those_of_the_cluster(tmp_path: Path) -> None:
    _, setting = await looked_at(ApiServer(), tmp_path)

    assert (setting.version, setting.nodes) == (Version(34, 11), 0)


async def test_what_nodes_have_to_give_is_known(tmp_path: Path) -> None:
    server = ApiServer(
        nodes=(
            {"metadata": {"name": "with"}, "status": {"allocatable": {"cpu": "4", "example.com/gpu": "2"}}},
            {"metadata": {"name": "new"}},
        )
    )

    _, setting = await looked_at(server, tmp_path)

    assert setting.nodes == 2
    assert setting.advertised == frozenset({"cpu", "example.com/gpu"})
    assert (await looked_at(ApiServer(forbidden=("/nodes",)), tmp_path))[1].advertised is None


async def test_a_version_that_is_given_stays(tmp_path: Path) -> None:
    _, setting = await looked_at(ApiServer(), tmp_path, fixed_version=True)

    assert setting.version == Setting().version


async def test_what_is_locked_is_written_down_and_the_rest_looked_at(tmp_path: Path) -> None:
    server = ApiServer(forbidden=("/nodes", "/pods", "/configmaps", "accessreviews"))

    cluster, setting = await looked_at(server, tmp_path)

    assert [text.partition(":")[0] for text in cluster.unseen] == [
        "nodes",
        "pods",
        "ConfigMaps of kube-system",
        "rights",
    ]
    assert setting.nodes is None


async def test_the_loopback_of_a_pod_is_not_called_from_here(tmp_path: Path) -> None:
    def calling(name: str, url: str) -> Any:
        entry = {"urlPrefix": url, "filterVerb": "filter"}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [entry],
        }
        return {"metadata": {"name": name}, "data": {"kube-scheduler.yaml": json.dumps(document)}}

    beside, elsewhere = "http://127.0.0.1:1", "http://0.0.0.0:1"
    server = ApiServer(config_maps=(calling("sidecar", beside), calling("service", elsewhere)))

    cluster, _ = await looked_at(server, tmp_path)

    assert len(cluster.given.schedulers) == 2
    assert [shake.name for shake in cluster.handshakes] == [elsewhere]


@pytest.mark.parametrize(
    "server",
    [
        pytest.param(ApiServer(version=["no object"]), id="a version that is none"),
        pytest.param(ApiServer(review={"status": "yes"}), id="a review that is none"),
    ],
)
async def test_an_answer_of_something_else_is_named(server: ApiServer, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="not what an API server sends"):
        await looked_at(server, tmp_path)
