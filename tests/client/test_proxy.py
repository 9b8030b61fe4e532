"""Through a proxy: TLS is with the API server, and the proxy sees no more than where it is."""

import base64
from pathlib import Path

import pytest

from bayplan.client.errors import ConnectError, Unreachable
from bayplan.client.rest import NODES
from tests.client.serving import (
    ConnectProxy,
    Script,
    client_of,
    no_nodes,
    server_tls,
    serving,
    write_kubeconfig,
)
from tests.controlplane.certs import Authority, make_ca


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_ca("cluster-ca", tmp_path_factory.mktemp("ca"))


def kubeconfig(folder: Path, server: str, proxy: str, ca: Authority, *, name: str = "") -> Path:
    cluster = {"server": server, "proxy-url": proxy, "certificate-authority": str(ca.cert)}
    return write_kubeconfig(
        folder, cluster={**cluster, "tls-server-name": name}, user={"token": "for-the-server-only"}
    )


@pytest.mark.parametrize("proxy_scheme", ["http", "https"])
async def test_the_name_for_tls_is_that_of_the_server_behind_the_proxy(
    tmp_path: Path, ca: Authority, proxy_scheme: str
) -> None:
    proxy = ConnectProxy()
    proxy_tls = server_tls(ca, ip="127.0.0.1") if proxy_scheme == "https" else None
    async with (
        serving(no_nodes, tls=server_tls(ca, dns="kubernetes")) as server,
        proxy.running(tls=proxy_tls) as address,
        client_of(
            kubeconfig(tmp_path, server, f"{proxy_scheme}://{address}", ca, name="kubernetes")
        ) as client,
    ):
        assert await client.list(NODES) == ([], "7")

    (head,) = proxy.heads
    assert head.startswith(f"CONNECT {server.removeprefix('https://')} HTTP/1.1\r\n")
    assert "for-the-server-only" not in head


async def test_a_server_with_another_name_is_not_trusted_behind_a_proxy_either(
    tmp_path: Path, ca: Authority
) -> None:
    proxy = ConnectProxy()
    async with (
        serving(no_nodes, tls=server_tls(ca, dns="somebody-else")) as server,
        proxy.running() as address,
        client_of(kubeconfig(tmp_path, server, f"http://{address}", ca, name="kubernetes")) as client,
    ):
        with pytest.raises(ConnectError, match="certificate verify failed"):
            await client.list(NODES)

    assert len(proxy.heads) == 1, "a wrong certificate is not tried again"


async def test_the_password_in_the_url_is_for_the_proxy(tmp_path: Path, ca: Authority) -> None:
    proxy = ConnectProxy()
    async with (
        serving(no_nodes, tls=server_tls(ca, ip="127.0.0.1")) as server,
        proxy.running() as address,
        client_of(kubeconfig(tmp_path, server, f"http://me:secret@{address}", ca)) as client,
    ):
        await client.list(NODES)

    assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:secret').decode()}\r\n" in proxy.heads[0]


async def test_a_proxy_that_refuses_is_named_as_the_one_who_did(tmp_path: Path, ca: Authority) -> None:
    proxy = ConnectProxy(refuse_with="407 Proxy Authentication Required")
    async with (
        proxy.running() as address,
        client_of(kubeconfig(tmp_path, "https://10.0.0.1:6443", f"http://me:secret@{address}", ca)) as client,
    ):
        with pytest.raises(Unreachable, match="the proxy said 407: Proxy Authentication Required") as caught:
            await client.list(NODES)

    assert "secret" not in str(caught.value)


async def test_a_server_without_tls_is_asked_through_the_proxy_too(tmp_path: Path, ca: Authority) -> None:
    proxy = Script()
    async with (
        serving(proxy.handle) as address,
        client_of(kubeconfig(tmp_path, "http://api.example:8001", address, ca)) as client,
    ):
        await client.node("n1")

    assert proxy.asked[0].headers["Host"] == "api.example:8001"
