"""Logging in through a program, as EKS, GKE and AKS do it: client-go's exec credential plugins.

The program prints an ``ExecCredential`` with a token and when it expires. It is run again shortly before
that, and when the API server does not accept the token any more.
"""

import os
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct, field

from bayplan.client.errors import ConnectError

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_TIMEOUT_SECONDS = 60
# Fetched anew a little early: a token must not expire on its way.
_EARLY_SECONDS = 60.0


class _Variable(Struct):
    name: str
    value: str = ""


class ExecConfig(Struct, rename="camel"):
    """``users[].user.exec`` of a kubeconfig."""

    command: str
    api_version: str = field(name="apiVersion", default=_VERSIONS[0])
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: str | None = None


class _Status(Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Credential(Struct, rename="camel"):
    status: _Status | None = None


_CREDENTIAL = msgspec.json.Decoder(_Credential)


class ExecLogin:
    """Runs the program when a token is needed, and keeps the token until it expires."""

    def __init__(self, config: ExecConfig, *, folder: Path) -> None:
        if config.api_version not in _VERSIONS:
            raise ValueError(f"exec: apiVersion {config.api_version!r}; want {' or '.join(_VERSIONS)}")
        self._config = config
        # A relative path is relative to the kubeconfig; a bare name is looked for in $PATH.
        bare = "/" not in config.command
        self._command = config.command if bare else str(folder / config.command)
        self._known: _Status | None = None
        self._lock = threading.Lock()

    def token(self) -> str:
        """The token; blocks while the program runs."""
        with self._lock:
            if self._known is None or _expired(self._known):
                self._known = self._run()
            return self._known.token

    def forget(self) -> None:
        """The API server did not accept it: run the program again next time."""
        self._known = None

    def _run(self) -> _Status:
        config = self._config
        info = {
            "apiVersion": config.api_version,
            "kind": "ExecCredential",
            "spec": {"interactive": False},
        }
        extra = {variable.name: variable.value for variable in config.env or ()}
        env = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        try:
            done = subprocess.run(  # noqa: S603 - the kubeconfig's owner says what to run, as with kubectl
                [self._command, *(config.args or ())],
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except FileNotFoundError as error:
            hint = f"; {config.install_hint.strip()}" if config.install_hint else ""
            raise ConnectError(f"exec: no program {config.command!r}{hint}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConnectError(f"exec: {config.command}: {error}") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-300:]
            raise ConnectError(f"exec: {config.command} ended with {done.returncode}: {said}")
        return self._read(done.stdout)

    def _read(self, output: bytes) -> _Status:
        try:
            status = _CREDENTIAL.decode(output).status
        except msgspec.MsgspecError as error:
            raise ConnectError(f"exec: {self._config.command}: not an ExecCredential: {error}") from error
        if status is None or not status.token:
            hint = " (client certificates from a program are not supported)" if status else ""
            raise ConnectError(f"exec: {self._config.command} gave no token{hint}")
        return status


def _expired(status: _Status) -> bool:
    expires = status.expiration_timestamp
    if expires is None:
        return False
    return expires.astimezone(UTC).timestamp() - time.time() < _EARLY_SECONDS
