"""Client certificates from a login program, shown to a server that asks for them."""

import json
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from bayplan.client.errors import ApiError
from tests.client.serving import client_of, server_tls, serving, write_kubeconfig
from tests.controlplane.certs import Authority, KeyPair, make_ca


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return make_ca("cluster-ca", tmp_path / "ca")


@dataclass
class Caller:
    """Who called, over which connection, and what they were answered."""

    refused: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert") or {}
        name = next((value for ((key, value),) in peer.get("subject", ()) if key == "commonName"), "")
        self.names.append(name)
        self.tokens.append(request.headers.get("Authorization", ""))
        self.connections.append(request.transport.get_extra_info("peername")[1])
        return web.json_response({"metadata": {"name": "n1"}}, status=401 if name in self.refused else 200)


class Program:
    """A login program whose next answer the test decides."""

    def __init__(self, folder: Path) -> None:
        self.answer = folder / "answer.json"
        self.path = folder / "login.sh"
        self.path.write_text(f"#!/bin/sh\ncat {self.answer}\n")
        self.path.chmod(0o755)

    def gives(self, pair: KeyPair, *, token: str = "", expires_in: timedelta | None = None) -> None:
        status = {"clientCertificateData": pair.cert.read_text(), "clientKeyData": pair.key.read_text()}
        if token:
            status["token"] = token
        if expires_in is not None:
            status["expirationTimestamp"] = (datetime.now(UTC) + expires_in).isoformat()
        self.answer.write_text(json.dumps({"kind": "ExecCredential", "status": status}))


def kubeconfig(folder: Path, server: str, ca: Authority) -> Path:
    return write_kubeconfig(
        folder,
        cluster={"server": server, "certificate-authority": str(ca.cert)},
        user={"exec": {"command": "./login.sh"}},
    )


def asking(ca: Authority) -> ssl.SSLContext:
    return server_tls(ca, ip="127.0.0.1", ask=True)


@pytest.mark.parametrize("token", [pytest.param("", id="alone"), pytest.param("secret", id="with a token")])
async def test_a_certificate_from_a_program_is_shown(tmp_path: Path, ca: Authority, token: str) -> None:
    caller, program = Caller(), Program(tmp_path)
    program.gives(ca.issue("first", client=True), token=token)
    async with (
        serving(caller.handle, tls=asking(ca)) as server,
        client_of(kubeconfig(tmp_path, server, ca)) as client,
    ):
        await client.node("n1")
        await client.node("n1")

    assert caller.names == ["first", "first"]
    assert caller.tokens == [f"Bearer {token}" if token else ""] * 2
    assert len(set(caller.connections)) == 1, "the connection is kept as long as the certificate"


async def test_a_certificate_that_expires_is_replaced_on_a_new_connection(
    tmp_path: Path, ca: Authority
) -> None:
    caller, program = Caller(), Program(tmp_path)
    program.gives(ca.issue("first", client=True), expires_in=timedelta(0))
    async with (
        serving(caller.handle, tls=asking(ca)) as server,
        client_of(kubeconfig(tmp_path, server, ca)) as client,
    ):
        await client.node("n1")
        program.gives(ca.issue("second", client=True))
        await client.node("n1")

    assert caller.names == ["first", "second"]


async def test_a_certificate_that_is_not_accepted_any_more_is_replaced(tmp_path: Path, ca: Authority) -> None:
    caller, program = Caller(), Program(tmp_path)
    program.gives(ca.issue("first", client=True))
    async with (
        serving(caller.handle, tls=asking(ca)) as server,
        client_of(kubeconfig(tmp_path, server, ca)) as client,
    ):
        await client.node("n1")
        caller.refused.add("first")
        program.gives(ca.issue("second", client=True))
        with pytest.raises(ApiError, match="401"):
            await client.node("n1")
        await client.node("n1")

    assert caller.names == ["first", "first", "second"]


async def test_the_same_certificate_again_keeps_the_connection(tmp_path: Path, ca: Authority) -> None:
    caller, program = Caller(), Program(tmp_path)
    program.gives(ca.issue("first", client=True), expires_in=timedelta(0))
    async with (
        serving(caller.handle, tls=asking(ca)) as server,
        client_of(kubeconfig(tmp_path, server, ca)) as client,
    ):
        await client.node("n1")
        await client.node("n1")

    assert len(set(caller.connections)) == 1
