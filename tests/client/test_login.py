"""Logging in through a program: run when needed, kept until it expires, explained when it fails."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.client.connect import from_kubeconfig
from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import NODES, ApiClient


def write_kubeconfig(folder: Path, script: str, **more: Any) -> Path:
    """A kubeconfig whose user is a shell script beside it."""
    program = folder / "login.sh"
    program.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{script}\n")
    program.chmod(0o755)
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": {"command": "./login.sh", **more}}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def credential(token: str, *, expires_in: timedelta | None = None) -> str:
    status: dict[str, str] = {"token": token}
    if expires_in is not None:
        status["expirationTimestamp"] = (datetime.now(UTC) + expires_in).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"echo '{json.dumps({'kind': 'ExecCredential', 'status': status})}'"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


@pytest.mark.parametrize(
    ("expires_in", "expected_runs"),
    [
        pytest.param(None, 1, id="a token for ever"),
        pytest.param(timedelta(hours=1), 1, id="a token that lasts"),
        pytest.param(timedelta(seconds=10), 3, id="a token that is about to expire"),
    ],
)
def test_the_program_is_run_as_often_as_needed(
    tmp_path: Path, expires_in: timedelta | None, expected_runs: int
) -> None:
    connection = from_kubeconfig(write_kubeconfig(tmp_path, credential("secret", expires_in=expires_in)))

    assert [connection.bearer() for _ in range(3)] == ["secret"] * 3
    assert runs(tmp_path) == expected_runs


def test_the_program_gets_its_arguments_variables_and_what_kubectl_tells_it(tmp_path: Path) -> None:
    script = 'test "$KUBERNETES_EXEC_INFO" || exit 3\nprintf \'{"status":{"token":"%s-%s"}}\' "$1" "$CLUSTER"'
    path = write_kubeconfig(tmp_path, script, args=["get"], env=[{"name": "CLUSTER", "value": "prod"}])

    assert from_kubeconfig(path).bearer() == "get-prod"


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        pytest.param("echo 'no session' >&2; exit 4", "ended with 4: no session", id="it fails"),
        pytest.param("echo hello", "not an ExecCredential", id="it prints something else"),
        pytest.param("echo '{}'", "gave no token", id="it prints nothing of use"),
        pytest.param(
            'echo \'{"status":{"clientCertificateData":"x"}}\'', "not supported", id="it gives a certificate"
        ),
    ],
)
def test_a_program_that_gives_no_token_is_explained(tmp_path: Path, script: str, complaint: str) -> None:
    with pytest.raises(ConnectError, match=complaint):
        from_kubeconfig(write_kubeconfig(tmp_path, script)).bearer()


def test_a_program_that_is_not_there_comes_with_its_hint(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "", installHint="install it with: brew")
    (tmp_path / "login.sh").unlink()

    with pytest.raises(ConnectError, match=r"no program '\./login\.sh'; install it with: brew"):
        from_kubeconfig(path).bearer()


async def test_a_token_that_is_not_accepted_any_more_is_fetched_anew(tmp_path: Path) -> None:
    connection = from_kubeconfig(write_kubeconfig(tmp_path, credential("secret")))

    async with ApiClient(connection) as client:
        for _ in range(2):
            with pytest.raises((ApiError, ConnectError)):
                await client.list(NODES)
        assert runs(tmp_path) == 1, "a server that is away says nothing about the token"
        assert connection.login is not None
        connection.login.forget()
        with pytest.raises(ConnectError):
            await client.list(NODES)

    assert runs(tmp_path) == 2
