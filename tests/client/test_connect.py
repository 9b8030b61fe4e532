"""Kubeconfigs in all the forms that people have, and what is wrong with those that do not work."""

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.client import connect
from bayplan.client.connect import Connection, default_kubeconfigs, from_kubeconfig, in_cluster
from bayplan.client.errors import ConnectError
from tests.controlplane.certs import Authority, KeyPair, make_ca


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_ca("cluster-ca", tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def user(ca: Authority) -> KeyPair:
    return ca.issue("admin", client=True)


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def write(
    folder: Path,
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A kubeconfig with one context called ``main``."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "x"}}],
        "current-context": "main",
        "preferences": {},
        **changes,
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def through(proxy: str) -> dict[str, Any]:
    return {"clusters": [{"name": "c", "cluster": {"server": "https://x", "proxy-url": proxy}}]}


def trusted(connection: Connection) -> list[Any]:
    assert connection.tls is not None
    return connection.tls.get_ca_certs()


def test_certificates_inside_the_file(tmp_path: Path, ca: Authority, user: KeyPair) -> None:
    path = write(
        tmp_path,
        cluster={"certificate-authority-data": data(ca.cert)},
        user={"client-certificate-data": data(user.cert), "client-key-data": data(user.key)},
    )

    connection = from_kubeconfig(path)

    assert connection.server == "https://127.0.0.1:6443"
    assert len(trusted(connection)) == 1
    assert connection.access().token == ""


def test_certificates_beside_the_file(tmp_path: Path, ca: Authority, user: KeyPair) -> None:
    (tmp_path / "ca.crt").write_bytes(ca.cert.read_bytes())
    (tmp_path / "me.crt").write_bytes(user.cert.read_bytes())
    (tmp_path / "me.key").write_bytes(user.key.read_bytes())
    path = write(
        tmp_path,
        cluster={"certificate-authority": "ca.crt"},
        user={"client-certificate": "me.crt", "client-key": "me.key"},
    )

    assert len(trusted(from_kubeconfig(path))) == 1


def test_data_wins_over_a_file_as_with_kubectl(tmp_path: Path, ca: Authority, user: KeyPair) -> None:
    both = {"certificate-authority-data": data(ca.cert), "certificate-authority": "missing.crt"}
    me = {
        "client-certificate-data": data(user.cert),
        "client-certificate": "missing",
        "client-key": str(user.key),
    }

    assert len(trusted(from_kubeconfig(write(tmp_path, cluster=both, user=me)))) == 1


def test_a_token_and_a_name_for_tls(tmp_path: Path, ca: Authority) -> None:
    cluster = {"certificate-authority-data": data(ca.cert), "tls-server-name": "kubernetes"}

    connection = from_kubeconfig(write(tmp_path, cluster=cluster, user={"token": "secret"}))

    assert (connection.access().token, connection.server_name) == ("secret", "kubernetes")


def test_a_token_file_is_read_each_time(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    connection = from_kubeconfig(write(tmp_path, user={"tokenFile": "token"}))
    assert connection.access().token == "first"

    (tmp_path / "token").write_text("second\n")
    assert connection.access().token == "second"

    (tmp_path / "token").unlink()
    with pytest.raises(ConnectError, match="token: No such file"):
        connection.access()


def test_whoever_wants_no_verification_gets_none(tmp_path: Path) -> None:
    tls = from_kubeconfig(write(tmp_path, cluster={"insecure-skip-tls-verify": True})).tls

    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_NONE, False)


def test_plain_http_needs_no_tls(tmp_path: Path) -> None:
    connection = from_kubeconfig(write(tmp_path, cluster={"server": "http://127.0.0.1:8001/"}))

    assert (connection.tls, connection.server) == (None, "http://127.0.0.1:8001")


def test_a_context_without_a_user_is_nobody(tmp_path: Path) -> None:
    path = write(tmp_path, contexts=[{"name": "main", "context": {"cluster": "c"}}])

    assert from_kubeconfig(path).access().token == ""


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    second = {"name": "d", "cluster": {"server": "https://other:6443"}}
    path = write(
        tmp_path,
        clusters=[{"name": "c", "cluster": {"server": "https://one:6443"}}, second],
        contexts=[
            {"name": "main", "context": {"cluster": "c", "user": "u"}},
            {"name": "second", "context": {"cluster": "d", "user": "u"}},
        ],
    )

    assert from_kubeconfig(path).server == "https://one:6443"
    assert from_kubeconfig(path, context="second").server == "https://other:6443"


@pytest.mark.parametrize(
    ("changes", "context", "error"),
    [
        pytest.param(
            {"current-context": ""}, "", "no current-context; give one with --context", id="no context"
        ),
        pytest.param({}, "mian", "no context 'mian'; did you mean 'main'?", id="a typo in the context"),
        pytest.param({"clusters": []}, "", "no cluster 'c'", id="a cluster that is not there"),
        pytest.param({"users": []}, "", "no user 'u'", id="a user that is not there"),
        pytest.param(
            {"users": [{"name": "u", "user": {"exec": {"command": "aws", "apiVersion": "v0"}}}]},
            "",
            "exec: apiVersion 'v0'",
            id="a program of another age",
        ),
        pytest.param(
            {"users": [{"name": "u", "user": {"exec": {"command": "aws", "interactiveMode": "Always"}}}]},
            "",
            "interactiveMode Always: aws wants a terminal, and a server has none",
            id="a program that wants a terminal",
        ),
        pytest.param(
            {"users": [{"name": "u", "user": {"exec": {"command": "aws", "interactiveMode": "never"}}}]},
            "",
            "interactiveMode 'never'; did you mean 'Never'?",
            id="a typo in the mode",
        ),
        pytest.param(
            through("socks5://user:secret@proxy:1080"),
            "",
            "proxy-url socks5://proxy: SOCKS proxies are not supported; use an http:// or https:// proxy",
            id="a SOCKS proxy",
        ),
        pytest.param(through("proxy:3128"), "", "want http://host:port", id="a proxy without a scheme"),
        pytest.param(through("http://proxy:x"), "", "Port could not be cast", id="a proxy at no port"),
        pytest.param({"clusters": "x"}, "", "Expected `array`, got `str`", id="a wrong type"),
        pytest.param({"clusters": [{"name": "c", "cluster": {}}]}, "", "`server`", id="no server"),
        pytest.param(
            {"users": [{"name": "u", "user": {"client-certificate": "no.crt", "client-key": "no.key"}}]},
            "",
            "a certificate or key cannot be read",
            id="a certificate that is not there",
        ),
        pytest.param(
            {
                "clusters": [
                    {"name": "c", "cluster": {"server": "https://x", "certificate-authority-data": "%%"}}
                ]
            },
            "",
            "a certificate or key cannot be read",
            id="data that is no certificate",
        ),
        pytest.param(
            {
                "clusters": [
                    {"name": "c", "cluster": {"server": "https://x", "certificate-authority-data": "Cg=="}}
                ]
            },
            "",
            "a certificate or key cannot be read",
            id="data that is nothing",
        ),
        pytest.param(
            {"clusters": [{"name": "c", "cluster": {"server": "10.0.0.1:6443"}}]},
            "",
            "server '10.0.0.1:6443' is no address, such as https://127.0.0.1:6443",
            id="a server without a scheme",
        ),
    ],
)
def test_mistakes_name_the_file_and_the_way_out(
    tmp_path: Path, changes: dict[str, Any], context: str, error: str
) -> None:
    with pytest.raises(ConnectError) as caught:
        from_kubeconfig(write(tmp_path, **changes), context=context)

    assert "kubeconfig" in str(caught.value)
    assert error in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        pytest.param(None, "No such file or directory", id="no file"),
        pytest.param(b"", "no current-context", id="an empty file"),
        pytest.param(b"a: [", "not valid YAML", id="no YAML"),
        pytest.param(b"\xff\xfe\x00", "kubeconfig", id="no text"),
        pytest.param(b"[1, 2]", "Expected `object`", id="a list"),
    ],
)
def test_files_that_are_no_kubeconfig(tmp_path: Path, content: bytes | None, error: str) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConnectError, match="kubeconfig") as caught:
        from_kubeconfig(path)
    assert error in str(caught.value)


def test_a_bundle_with_comments_in_any_language_is_read(tmp_path: Path, ca: Authority) -> None:
    (tmp_path / "ca.crt").write_bytes("# Főtanúsítvány\n".encode() + ca.cert.read_bytes())

    assert len(trusted(from_kubeconfig(write(tmp_path, cluster={"certificate-authority": "ca.crt"})))) == 1


def test_an_empty_bundle_does_not_mean_the_authorities_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("")

    with pytest.raises(ConnectError, match=r"ca\.crt is empty"):
        from_kubeconfig(write(tmp_path, cluster={"certificate-authority": "ca.crt"}))


def test_a_token_in_the_file_makes_the_program_needless_as_with_kubectl(tmp_path: Path) -> None:
    connection = from_kubeconfig(write(tmp_path, user={"token": "mine", "exec": {"command": "no-such"}}))

    assert connection.access().token == "mine"


def test_secrets_are_not_shown_where_a_connection_is(tmp_path: Path) -> None:
    cluster = {"proxy-url": "http://user:hidden@proxy:3128"}
    connection = from_kubeconfig(write(tmp_path, cluster=cluster, user={"token": "hidden"}))

    assert connection.proxy == "http://user:hidden@proxy:3128"
    assert "hidden" not in repr(connection) + repr(connection.access())


def test_where_kubectl_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert default_kubeconfigs() == [tmp_path / ".kube" / "config"]

    monkeypatch.setenv("KUBECONFIG", ":/first:/second")
    assert default_kubeconfigs() == [Path("/first")], "one to name in the error"

    (tmp_path / "there").write_text("{}")
    monkeypatch.setenv("KUBECONFIG", f"/first:{tmp_path}/there")
    assert default_kubeconfigs() == [tmp_path / "there"]


def test_of_several_files_the_first_to_name_a_thing_wins(tmp_path: Path) -> None:
    first = {
        "clusters": [{"name": "c", "cluster": {"server": "http://first"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    second = {
        "clusters": [{"name": "c", "cluster": {"server": "http://second"}}],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
        "current-context": "y",
    }
    for folder, config in (("one", first), ("two", second)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config").write_text(json.dumps(config))
    (tmp_path / "two" / "token").write_text("secret")

    connection = from_kubeconfig(tmp_path / "one" / "config", tmp_path / "two" / "config")

    assert connection.server == "http://first"
    assert connection.access().token == "secret", "paths start where their file is"


def test_inside_a_pod(tmp_path: Path, ca: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConnectError, match=r"ca\.crt: No such file"):
        in_cluster()

    (tmp_path / "ca.crt").write_bytes(ca.cert.read_bytes())
    (tmp_path / "token").write_text("pod-token")
    connection = in_cluster()
    assert (connection.server, connection.access().token) == ("https://[fd00::1]:443", "pod-token")

    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(ConnectError, match=r"not in a cluster.*--kubeconfig"):
        in_cluster()
