"""Certificates in files that are replaced while we run: new connections use what is there now."""

import json
import logging
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from bayplan.client import connect
from bayplan.client.connect import in_cluster
from bayplan.client.errors import ConnectError
from bayplan.client.rest import ApiClient
from bayplan.client.retry import Retry
from bayplan.state.sources.http import Access, SourceError, SourceHttp
from tests.client.serving import client_of, no_sleep, server_tls, serving, write_kubeconfig
from tests.client.test_login_certificates import Caller
from tests.controlplane.certs import Authority, KeyPair, make_ca


@pytest.fixture
def old(tmp_path: Path) -> Authority:
    return make_ca("old-ca", tmp_path / "old")


@pytest.fixture
def new(tmp_path: Path) -> Authority:
    return make_ca("new-ca", tmp_path / "new")


class Hanging(Caller):
    """Hangs up after each answer, so that each request is a connection of its own."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await super().handle(request)
        response.force_close()
        return response


def switch(server: ssl.SSLContext, ca: Authority) -> None:
    """From now on the server shows a certificate of that authority."""
    pair = ca.issue("127.0.0.1", ips=["127.0.0.1"], server=True)
    server.load_cert_chain(pair.cert, pair.key)


def copy(pair: KeyPair, folder: Path) -> None:
    (folder / "me.crt").write_bytes(pair.cert.read_bytes())
    (folder / "me.key").write_bytes(pair.key.read_bytes())


def login_program(folder: Path) -> None:
    credential = json.dumps({"kind": "ExecCredential", "status": {"token": "secret"}})
    (folder / "login.sh").write_text(f"#!/bin/sh\necho '{credential}'\n")
    (folder / "login.sh").chmod(0o755)


@pytest.mark.parametrize(
    "user",
    [
        pytest.param({"token": "secret"}, id="with a token"),
        pytest.param({"exec": {"command": "./login.sh"}}, id="with a login program"),
    ],
)
async def test_an_authority_that_is_replaced_is_trusted_without_a_restart(
    tmp_path: Path, old: Authority, new: Authority, user: dict[str, object]
) -> None:
    login_program(tmp_path)
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(old.cert.read_bytes())
    tls = server_tls(old, ip="127.0.0.1")
    async with serving(Hanging().handle, tls=tls) as server:
        path = write_kubeconfig(
            tmp_path, cluster={"server": server, "certificate-authority": "ca.crt"}, user=user
        )
        async with client_of(path) as client:
            await client.node("n1")
            switch(tls, new)
            with pytest.raises(ConnectError, match="certificate verify failed"):
                await client.node("n1")

            trusted.write_bytes(new.cert.read_bytes())
            await client.node("n1")


async def test_the_authority_and_the_token_of_a_pod_may_be_replaced(
    tmp_path: Path, old: Authority, new: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "_SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "ca.crt").write_bytes(old.cert.read_bytes())
    (tmp_path / "token").write_text("first")
    caller, tls = Hanging(), server_tls(old, ip="127.0.0.1")
    async with serving(caller.handle, tls=tls) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(urlsplit(server).port))
        async with ApiClient(in_cluster(), retry=Retry(sleep=no_sleep)) as client:
            await client.node("n1")
            switch(tls, new)
            (tmp_path / "ca.crt").write_bytes(new.cert.read_bytes())
            (tmp_path / "token").write_text("second")
            await client.node("n1")

    assert caller.tokens == ["Bearer first", "Bearer second"]


async def test_a_client_certificate_that_is_replaced_is_shown_on_a_new_connection(
    tmp_path: Path, old: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caller = Caller()
    copy(old.issue("first", client=True), tmp_path)
    async with serving(caller.handle, tls=server_tls(old, ip="127.0.0.1", ask=True)) as server:
        path = write_kubeconfig(
            tmp_path,
            cluster={"server": server, "certificate-authority": str(old.cert)},
            user={"client-certificate": "me.crt", "client-key": "me.key"},
        )
        async with client_of(path) as client:
            await client.node("n1")
            await client.node("n1")
            second = old.issue("second", client=True)

            # A certificate whose key is still the old one is of no use yet.
            (tmp_path / "me.crt").write_bytes(second.cert.read_bytes())
            with caplog.at_level(logging.WARNING):
                await client.node("n1")
                await client.node("n1")
            assert [record.levelname for record in caplog.records] == ["WARNING"], "told once"

            copy(second, tmp_path)
            await client.node("n1")

    assert caller.names == ["first", "first", "first", "first", "second"]
    assert len(set(caller.connections)) == 2, "as long as nothing changes, the connection is kept"


async def test_the_authority_of_a_source_may_be_replaced(
    tmp_path: Path, old: Authority, new: Authority
) -> None:
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(old.cert.read_bytes())
    tls = server_tls(old, ip="127.0.0.1")
    source = SourceHttp(Access(ca_file=trusted))
    async with serving(Hanging().handle, tls=tls) as server:
        await source.read(server)
        switch(tls, new)
        with pytest.raises(SourceError, match="certificate verify failed"):
            await source.read(server)

        trusted.write_bytes(new.cert.read_bytes())
        await source.read(server)
    await source.close()
