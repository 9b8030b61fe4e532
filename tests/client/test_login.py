"""Logging in through a program: run when needed, kept until it expires, explained when it fails."""

import asyncio
import base64
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bayplan.client.connect import from_kubeconfig
from bayplan.client.errors import ApiError, ConnectError, Unsent
from tests.client.serving import Script, client_of, serving
from tests.client.serving import write_kubeconfig as serving_kubeconfig
from tests.controlplane.certs import make_ca
from tests.controlplane.waiting import wait_until


def write_kubeconfig(
    folder: Path, script: str, *, cluster: dict[str, Any] | None = None, **more: Any
) -> Path:
    """A kubeconfig whose user is a shell script beside it."""
    program = folder / "login.sh"
    program.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{script}\n")
    program.chmod(0o755)
    user = {"exec": {"command": "./login.sh", **more}}
    return serving_kubeconfig(folder, cluster=cluster or {"server": "http://127.0.0.1:1"}, user=user)


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def credential(token: str, *, expires_in: timedelta | None = None, expires: datetime | None = None) -> str:
    status: dict[str, str] = {"token": token}
    if expires_in is not None:
        expires = datetime.now(UTC) + expires_in
    if expires is not None:
        status["expirationTimestamp"] = expires.strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"echo '{json.dumps({'kind': 'ExecCredential', 'status': status})}'"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


@pytest.mark.parametrize(
    ("expires_in", "expected_runs"),
    [
        pytest.param(None, 1, id="a token for ever"),
        pytest.param(timedelta(hours=1), 1, id="a token that lasts"),
        pytest.param(timedelta(seconds=50), 1, id="a token that lasts less than a minute"),
        pytest.param(timedelta(seconds=-10), 3, id="a token that has expired already"),
    ],
)
def test_the_program_is_run_as_often_as_needed(
    tmp_path: Path, expires_in: timedelta | None, expected_runs: int
) -> None:
    connection = from_kubeconfig(write_kubeconfig(tmp_path, credential("secret", expires_in=expires_in)))

    assert [connection.access().token for _ in range(3)] == ["secret"] * 3
    assert runs(tmp_path) == expected_runs


@pytest.mark.parametrize(
    ("lasts", "good_for"),
    [
        pytest.param(timedelta(hours=1), timedelta(minutes=59), id="a minute before it expires"),
        pytest.param(timedelta(seconds=45), timedelta(seconds=30), id="after two thirds of a short life"),
    ],
)
def test_a_token_is_fetched_anew_a_little_before_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasts: timedelta, good_for: timedelta
) -> None:
    # Whole seconds, as the program writes them.
    now = float(int(time.time()))
    monkeypatch.setattr(time, "time", lambda: now)
    expires = datetime.fromtimestamp(now, UTC) + lasts
    login = from_kubeconfig(write_kubeconfig(tmp_path, credential("secret", expires=expires)))
    login.access()

    now += good_for.total_seconds() - 1
    login.access()
    assert runs(tmp_path) == 1
    now += 2
    login.access()
    assert runs(tmp_path) == 2


def test_the_program_gets_its_arguments_variables_and_what_kubectl_tells_it(tmp_path: Path) -> None:
    script = 'test "$KUBERNETES_EXEC_INFO" || exit 3\nprintf \'{"status":{"token":"%s-%s"}}\' "$1" "$CLUSTER"'
    path = write_kubeconfig(tmp_path, script, args=["get"], env=[{"name": "CLUSTER", "value": "prod"}])

    assert from_kubeconfig(path).access().token == "get-prod"


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        pytest.param("echo 'no session' >&2; exit 4", "ended with 4: no session", id="it fails"),
        pytest.param("echo hello", "not an ExecCredential", id="it prints something else"),
        pytest.param("echo '{}'", "gave no token and no certificate", id="it prints nothing of use"),
        pytest.param(
            'echo \'{"status":{"clientCertificateData":"x"}}\'', "no clientKeyData", id="it gives no key"
        ),
        pytest.param(
            'echo \'{"status":{"clientKeyData":"x"}}\'', "no clientCertificateData", id="it gives only a key"
        ),
        pytest.param(
            'echo \'{"status":{"clientCertificateData":"x","clientKeyData":"x"}}\'',
            "a certificate or key cannot be read",
            id="it gives no certificate worth the name",
        ),
    ],
)
def test_a_program_that_gives_no_token_is_explained(tmp_path: Path, script: str, complaint: str) -> None:
    with pytest.raises(ConnectError, match=complaint):
        from_kubeconfig(write_kubeconfig(tmp_path, script, cluster={"server": "https://x"})).access()


def test_a_program_that_is_not_there_comes_with_its_hint(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "", installHint="install it with: brew")
    (tmp_path / "login.sh").unlink()

    with pytest.raises(ConnectError, match=r"no program '\./login\.sh'; install it with: brew"):
        from_kubeconfig(path).access()


async def test_a_token_that_is_not_accepted_any_more_is_fetched_anew(tmp_path: Path) -> None:
    api = Script([503, 401])
    async with serving(api.handle) as server:
        path = write_kubeconfig(tmp_path, credential("secret"), cluster={"server": server})
        async with client_of(path) as client:
            with pytest.raises(ApiError, match="401"):
                await client.node("n1")
            assert runs(tmp_path) == 1, "a server that stumbles says nothing about the token"
            await client.node("n1")

    assert runs(tmp_path) == 2


def test_a_late_refusal_does_not_throw_away_what_was_fetched_meanwhile(tmp_path: Path) -> None:
    login = from_kubeconfig(write_kubeconfig(tmp_path, credential("secret"))).login
    assert login is not None
    first = login.access()
    login.forget(first)
    second = login.access()

    login.forget(first)

    assert login.access() is second
    assert runs(tmp_path) == 2


async def test_many_requests_at_once_run_the_program_once_on_a_thread_of_its_own(tmp_path: Path) -> None:
    api = Script()
    async with serving(api.handle) as server:
        # It goes on when the test says so, and the pool that others wait for has one thread alone.
        script = f"while ! test -e {tmp_path}/go; do sleep 0.01; done\n" + credential("secret")
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        async with client_of(write_kubeconfig(tmp_path, script, cluster={"server": server})) as client:
            asking = [asyncio.create_task(client.node("n1")) for _ in range(20)]
            await asyncio.to_thread(wait_until, (tmp_path / "runs").exists, 10, what="the program")

            (tmp_path / "go").touch()
            await asyncio.gather(*asking)

    assert runs(tmp_path) == 1
    assert {request.headers["Authorization"] for request in api.asked} == {"Bearer secret"}
    assert len(api.asked) == 20


async def test_one_who_gives_up_waiting_leaves_the_program_to_the_others(tmp_path: Path) -> None:
    api = Script()
    async with serving(api.handle) as server:
        script = f"while ! test -e {tmp_path}/go; do sleep 0.01; done\n" + credential("secret")
        async with client_of(write_kubeconfig(tmp_path, script, cluster={"server": server})) as client:
            hasty, patient = (asyncio.create_task(client.node("n1")) for _ in range(2))
            await asyncio.to_thread(wait_until, (tmp_path / "runs").exists, 10, what="the program")

            hasty.cancel()
            (tmp_path / "go").touch()
            await patient

    assert hasty.cancelled()
    assert runs(tmp_path) == 1


async def test_a_program_that_fails_fails_everybody_who_waits_and_is_run_again_later(tmp_path: Path) -> None:
    api = Script()
    async with serving(api.handle) as server:
        script = f"test -e {tmp_path}/go || exit 4\n" + credential("secret")
        async with client_of(write_kubeconfig(tmp_path, script, cluster={"server": server})) as client:
            found = await asyncio.gather(*(client.node("n1") for _ in range(5)), return_exceptions=True)
            assert [type(each) for each in found] == [Unsent] * 5

            (tmp_path / "go").touch()
            await client.node("n1")

    assert len(api.asked) == 1


async def test_where_no_thread_can_be_had_the_next_one_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    api = Script()
    async with serving(api.handle) as server:
        kubeconfig = write_kubeconfig(tmp_path, credential("secret"), cluster={"server": server})
        async with client_of(kubeconfig) as client:
            with monkeypatch.context() as patched:
                patched.setattr(threading.Thread, "start", no_thread)
                with pytest.raises(RuntimeError, match="can't start"):
                    await client.node("n1")

            async with asyncio.timeout(10):
                await client.node("n1")

    assert len(api.asked) == 1


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("asked", [True, False])
def test_a_program_that_asks_for_it_is_told_of_the_cluster(tmp_path: Path, version: str, asked: bool) -> None:
    make_ca("cluster-ca", tmp_path)
    script = f'printf "%s" "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n' + credential("secret")
    cluster = {
        "server": "https://127.0.0.1:6443",
        "certificate-authority": "cluster-ca.crt",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "extensions": [
            {"name": "somebody.else", "extension": {"not": "for us"}},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "prod"}},
        ],
    }
    more = {"apiVersion": f"client.authentication.k8s.io/{version}", "provideClusterInfo": asked}
    from_kubeconfig(write_kubeconfig(tmp_path, script, cluster=cluster, **more)).access()

    told = json.loads((tmp_path / "info").read_text())
    described = {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": data(tmp_path / "cluster-ca.crt"),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "config": {"audience": "prod"},
    }
    assert told == {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "kind": "ExecCredential",
        "spec": {"interactive": False, **({"cluster": described} if asked else {})},
    }


def test_a_program_is_told_of_the_authority_as_it_is_now(tmp_path: Path) -> None:
    for name in ("cluster-ca", "next-ca"):
        make_ca(name, tmp_path)
    script = f'printf "%s" "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n'
    script += credential("secret", expires_in=timedelta(seconds=-10))
    cluster = {"server": "https://x", "certificate-authority": "cluster-ca.crt"}
    connection = from_kubeconfig(write_kubeconfig(tmp_path, script, cluster=cluster, provideClusterInfo=True))
    connection.access()

    (tmp_path / "next-ca.crt").replace(tmp_path / "cluster-ca.crt")
    connection.access()

    described = json.loads((tmp_path / "info").read_text())["spec"]["cluster"]
    assert described["certificate-authority-data"] == data(tmp_path / "cluster-ca.crt")
    (tmp_path / "cluster-ca.crt").unlink()
    with pytest.raises(ConnectError, match=r"cluster-ca\.crt: No such file"):
        connection.access()


def test_a_cluster_that_is_not_verified_is_described_as_such(tmp_path: Path) -> None:
    script = f'printf "%s" "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n' + credential("secret")
    cluster = {"server": "https://x", "insecure-skip-tls-verify": True}
    from_kubeconfig(write_kubeconfig(tmp_path, script, cluster=cluster, provideClusterInfo=True)).access()

    described = json.loads((tmp_path / "info").read_text())["spec"]["cluster"]
    assert described == {"server": "https://x", "insecure-skip-tls-verify": True}
