"""HTTPS: who is let in, and certificates that are replaced while the server runs."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from bayplan.ops.logs import Sparingly
from bayplan.ops.tls import TlsError, TlsFiles, certificate_names
from bayplan.runtimes.extender.serve import Server
from tests.controlplane.certs import Authority, KeyPair, make_ca
from tests.runtimes.extender.caller import Caller, ask, look, metric, names_request
from tests.runtimes.extender.obedient import make_options

NODES = ["node-0"]


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_ca("the-ca", tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def other_ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_ca("another-ca", tmp_path_factory.mktemp("other"))


@pytest.fixture
def pair(ca: Authority, tmp_path: Path) -> KeyPair:
    """The server's certificate, in files of this test alone."""
    issued = ca.issue("extender", ips=["127.0.0.1"], server=True)
    return copied(issued, tmp_path / "tls")


def copied(issued: KeyPair, folder: Path) -> KeyPair:
    folder.mkdir(exist_ok=True)
    mine = KeyPair(folder / "tls.crt", folder / "tls.key")
    mine.cert.write_bytes(issued.cert.read_bytes())
    mine.key.write_bytes(issued.key.read_bytes())
    return mine


def trusting(ca: Authority, client: KeyPair | None = None) -> ssl.SSLContext:
    """What a caller has: a CA to verify the server with, and perhaps a certificate of its own."""
    context = ssl.create_default_context(cafile=str(ca.cert))
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    return context


def secured(folder: Path, files: TlsFiles) -> Server:
    return Server(replace(make_options(folder, view=NODES), tls=files, tls_reload_seconds=0.05))


async def is_served(server: Server, tls: ssl.SSLContext) -> bool:
    """Whether a caller gets through the handshake and an answer."""
    try:
        return (await ask(server, "filter", names_request(NODES), tls=tls)).status == 200
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        # With TLS 1.3 a client learns that it was refused when it reads.
        return False


def refuse(address: tuple[str, int], context: ssl.SSLContext) -> None:
    """A caller that does not believe the server, and says so: asyncio would hang up without a word."""
    with socket.create_connection(address) as plain, pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(plain, server_hostname=address[0])


async def test_https_is_served_and_a_caller_with_another_ca_does_not_believe_it(
    tmp_path: Path, ca: Authority, other_ca: Authority, pair: KeyPair
) -> None:
    async with secured(tmp_path, TlsFiles(pair.cert, pair.key)).running() as server:
        assert await is_served(server, trusting(ca))
        assert not await is_served(server, trusting(other_ca))
        assert (await look(server, "/livez")).status == 200


async def test_http_1_1_is_what_is_agreed_on(tmp_path: Path, ca: Authority, pair: KeyPair) -> None:
    context = trusting(ca)
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with (
        secured(tmp_path, TlsFiles(pair.cert, pair.key)).running() as server,
        await Caller.connect(server, tls=context) as caller,
    ):
        connection: ssl.SSLObject = caller.writer.get_extra_info("ssl_object")
        assert connection.selected_alpn_protocol() == "http/1.1"
        assert connection.version() == "TLSv1.3"


async def test_only_callers_with_a_certificate_of_the_ca_are_let_in(
    tmp_path: Path, ca: Authority, other_ca: Authority, pair: KeyPair
) -> None:
    friend = ca.issue("kube-scheduler", client=True)
    stranger = other_ca.issue("kube-scheduler", client=True, filename="stranger")
    late = ca.issue("late", client=True, days=-1)
    files = TlsFiles(pair.cert, pair.key, ca.cert, require_client_cert=True)
    async with secured(tmp_path, files).running() as server:
        assert await is_served(server, trusting(ca, friend))
        assert not await is_served(server, trusting(ca, stranger))
        assert not await is_served(server, trusting(ca, late))
        assert not await is_served(server, trusting(ca))
        assert await is_served(server, trusting(ca, friend)), "refusals cost nothing"


@pytest.mark.parametrize(
    ("caller", "told"),
    [
        pytest.param("stranger", "of a CA in our clientCAFile", id="of another CA"),
        pytest.param("late", "certificate has expired", id="ended"),
        pytest.param("nobody", "its tlsConfig needs certFile and keyFile", id="none at all"),
        pytest.param("mistrusting", "of a CA in the caller's caFile", id="another CA at the caller's"),
        pytest.param("misled", "have the host of its urlPrefix among its names", id="another name"),
        pytest.param("plain", "must begin with https://", id="no TLS"),
    ],
)
async def test_the_log_says_whose_certificate_it_was_and_what_to_look_at(
    caller: str,
    told: str,
    *,
    tmp_path: Path,
    ca: Authority,
    other_ca: Authority,
    pair: KeyPair,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Another test may have had the same words a moment ago.
    monkeypatch.setattr("bayplan.ops.tls._refusals", Sparingly())
    friend = ca.issue("kube-scheduler", client=True)
    shown: dict[str, KeyPair | None] = {
        "stranger": other_ca.issue("kube-scheduler", client=True, filename="stranger"),
        "late": ca.issue("late", client=True, days=-1),
        "nobody": None,
    }
    believed = other_ca if caller == "mistrusting" else ca
    certificate = copied(ca.issue("elsewhere", dns=["elsewhere"], server=True), tmp_path / "elsewhere")
    served = certificate if caller == "misled" else pair
    files = TlsFiles(served.cert, served.key, ca.cert, require_client_cert=True)
    async with secured(tmp_path, files).running() as server:
        if caller == "plain":
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await ask(server, "filter", names_request(NODES))
        elif caller in shown:
            assert not await is_served(server, trusting(ca, shown[caller]))
        else:
            await asyncio.to_thread(refuse, server.listener.address, trusting(believed, friend))

        async def said() -> bool:
            return told in caplog.text

        await until(said, what="it is said")

    assert "the TLS handshake with a caller failed: [SSL" in caplog.text


async def test_allowed_names_are_the_common_name_or_a_dns_name(
    tmp_path: Path, ca: Authority, pair: KeyPair
) -> None:
    by_name = ca.issue("system:kube-scheduler", client=True)
    by_dns = ca.issue("whoever", dns=["scheduler.example"], client=True)
    neither = ca.issue("system:node", client=True)
    names = frozenset({"system:kube-scheduler", "scheduler.example"})
    async with secured(
        tmp_path, TlsFiles(pair.cert, pair.key, ca.cert, allowed_names=names)
    ).running() as server:
        for friend in (by_name, by_dns):
            answer = await ask(server, "filter", names_request(NODES), tls=trusting(ca, friend))
            assert answer.json["NodeNames"] == NODES
        answer = await ask(server, "filter", names_request(NODES), tls=trusting(ca, neither))

    assert answer.status == 403
    assert "system:node, which allowedNames does not list" in answer.json["Error"]


async def test_a_ca_that_is_not_required_lets_callers_without_a_certificate_in(
    tmp_path: Path, ca: Authority, pair: KeyPair
) -> None:
    async with secured(tmp_path, TlsFiles(pair.cert, pair.key, ca.cert)).running() as server:
        assert await is_served(server, trusting(ca))


@pytest.mark.parametrize(
    "asked", [{"require_client_cert": True}, {"allowed_names": frozenset({"x"})}], ids=["required", "names"]
)
def test_client_authentication_without_a_ca_does_not_start(asked: dict[str, Any]) -> None:
    with pytest.raises(TlsError, match="without a CA: set clientCAFile"):
        TlsFiles(Path("a"), Path("b"), **asked)


async def test_certificate_key_and_ca_are_replaced_without_a_restart(
    tmp_path: Path, ca: Authority, other_ca: Authority, pair: KeyPair
) -> None:
    client_ca = tmp_path / "client-ca.crt"
    client_ca.write_bytes(ca.cert.read_bytes())
    old, new = ca.issue("old", client=True), other_ca.issue("new", client=True)
    files = TlsFiles(pair.cert, pair.key, client_ca, require_client_cert=True)
    async with (
        secured(tmp_path, files).running() as server,
        await Caller.connect(server, tls=trusting(ca, old)) as open_before,
    ):
        assert (await open_before.post("filter", names_request(NODES))).status == 200
        copied(other_ca.issue("extender", ips=["127.0.0.1"], server=True), pair.cert.parent)
        client_ca.write_bytes(other_ca.cert.read_bytes())

        await until(lambda: is_served(server, trusting(other_ca, new)), what="the new ones are used")

        assert not await is_served(server, trusting(ca, old))
        assert not await is_served(server, trusting(other_ca, old))
        assert (await open_before.post("filter", names_request(NODES))).status == 200


async def test_nobody_who_connects_while_certificates_are_replaced_is_forgotten(
    tmp_path: Path, ca: Authority, pair: KeyPair
) -> None:
    files = TlsFiles(pair.cert, pair.key)
    context = trusting(ca)
    async with secured(tmp_path, files).running() as server:
        callers = []
        for steps in range(60):
            callers.append(asyncio.create_task(is_served(server, context)))
            # How many turns of the loop it takes until a caller is let in is not for us to know.
            for _ in range(steps % 6):
                await asyncio.sleep(0)
            server.listener.renew(files.context())

        async with asyncio.timeout(10):
            assert all(await asyncio.gather(*callers))


async def test_the_metrics_say_when_the_certificate_in_use_ends(
    tmp_path: Path, ca: Authority, pair: KeyPair
) -> None:
    name = "bayplan_certificate_expiry_timestamp_seconds"

    def in_days(days: float) -> Any:
        return pytest.approx(time.time() + days * 86400, abs=600)

    async with secured(tmp_path, TlsFiles(pair.cert, pair.key)).running() as server:
        assert await metric(server, name, use="server") == in_days(1)
        copied(ca.issue("extender", ips=["127.0.0.1"], server=True, days=30), pair.cert.parent)

        async def seen() -> bool:
            return bool(await metric(server, name, use="server") == in_days(30))

        await until(seen, what="the new end is shown")
        pair.cert.write_text("no certificate")

        assert await metric(server, name, use="server") == in_days(30)


async def test_without_https_there_is_no_end_to_show(tmp_path: Path) -> None:
    async with Server(make_options(tmp_path, view=NODES)).running() as server:
        text = (await look(server, "/metrics")).body.decode()

    assert "bayplan_certificate_expiry_timestamp_seconds{" not in text


@pytest.mark.parametrize("broken", ["the certificate", "the key", "the client CA", "a key of another pair"])
async def test_a_broken_file_keeps_the_old_ones_and_says_so(
    tmp_path: Path, ca: Authority, pair: KeyPair, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    client_ca = tmp_path / "client-ca.crt"
    client_ca.write_bytes(ca.cert.read_bytes())
    other_key = ca.issue("other").key.read_bytes()
    async with secured(tmp_path, TlsFiles(pair.cert, pair.key, client_ca)).running() as server:
        if broken == "the certificate":
            pair.cert.write_text("no certificate")
        elif broken == "the key":
            pair.key.unlink()
        elif broken == "the client CA":
            client_ca.write_text("")
        else:
            pair.key.write_bytes(other_key)

        async def said() -> bool:
            return "cannot be used, keeping the old ones" in caplog.text

        await until(said, what="it is said")
        assert await is_served(server, trusting(ca))

        copied(ca.issue("extender-2", ips=["127.0.0.1"], server=True), pair.cert.parent)
        client_ca.write_bytes(ca.cert.read_bytes())
        caplog.clear()
        caplog.set_level(logging.INFO)

        async def replaced() -> bool:
            return "new connections use the new ones" in caplog.text

        await until(replaced, what="the mended ones are used")
        assert await is_served(server, trusting(ca))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        pytest.param(lambda pair: pair.key.write_text("x"), "tls.key", id="no key in the file"),
        pytest.param(lambda pair: encrypt(pair.key), "tls.key", id="an encrypted key, and nobody to ask"),
    ],
)
def test_certificates_that_cannot_be_used_are_an_error_with_their_names(
    pair: KeyPair, spoil: Callable[[KeyPair], None], said: str
) -> None:
    spoil(pair)

    with pytest.raises(TlsError, match=r"certificate .*tls.crt with key .*tls.key") as caught:
        TlsFiles(pair.cert, pair.key).context()
    assert said in str(caught.value)


@pytest.mark.parametrize("missing", ["certificate", "key"])
def test_of_two_files_the_one_that_is_missing_is_named(pair: KeyPair, missing: str) -> None:
    file = pair.cert if missing == "certificate" else pair.key
    file.unlink()

    with pytest.raises(TlsError) as caught:
        TlsFiles(pair.cert, pair.key).context()
    assert str(caught.value) == f"{missing} {file}: No such file or directory"


def test_a_client_ca_that_cannot_be_read_is_named(pair: KeyPair, tmp_path: Path) -> None:
    with pytest.raises(TlsError, match=r"client CA .*missing\.crt: No such file"):
        TlsFiles(pair.cert, pair.key, tmp_path / "missing.crt").context()


async def test_a_slow_handshake_does_not_keep_others_out(
    tmp_path: Path, ca: Authority, pair: KeyPair
) -> None:
    options = replace(make_options(tmp_path, view=NODES), tls=TlsFiles(pair.cert, pair.key))
    limits = replace(options.limits, header_seconds=0.3)
    async with (
        Server(replace(options, limits=limits)).running() as server,
        await Caller.connect(server) as silent,
    ):
        assert await is_served(server, trusting(ca))
        assert await silent.hung_up()


async def test_who_speaks_no_tls_is_hung_up_on_at_once(tmp_path: Path, pair: KeyPair) -> None:
    options = replace(make_options(tmp_path, view=NODES), tls=TlsFiles(pair.cert, pair.key))
    patient = replace(options.limits, header_seconds=600.0)
    async with (
        Server(replace(options, limits=patient)).running() as server,
        await Caller.connect(server) as plain,
    ):
        await plain.send(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        assert await plain.hung_up()


def test_names_of_a_certificate() -> None:
    certificate = {
        "subject": ((("organizationName", "o"),), (("commonName", "cn"),)),
        "subjectAltName": (("DNS", "a.example"), ("IP Address", "127.0.0.1")),
    }

    assert certificate_names(certificate) == {"cn", "a.example"}
    assert certificate_names({}) == set()


def encrypt(path: Path) -> None:
    key = load_pem_private_key(path.read_bytes(), None)
    sealed = BestAvailableEncryption(b"secret")
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))


async def until(condition: Callable[[], Any], *, what: str) -> None:
    deadline = time.monotonic() + 10
    while not await condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.02)
