"""Login by a program, as with EKS, GKE and AKS: client-go's exec credential plugins.

The program prints an ``ExecCredential``: a token, a client certificate or both, and when they expire. It is
run again shortly before that, and when the API server rejects them.
"""

import os
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bayplan.client.errors import ConnectError
from bayplan.client.tls import FileContext
from bayplan.kube.yaml import suggest

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_MODES = ("Never", "IfAvailable", "Always")
_TIMEOUT_SECONDS = 60
# Fetched anew a little early: a token must not expire on its way.
_EARLY_SECONDS = 60.0
_EARLY_PART = 1 / 3


class _Variable(Struct):
    name: str
    value: str = ""


class ExecConfig(Struct, rename="camel"):
    """``users[].user.exec`` of a kubeconfig."""

    command: str
    api_version: str = _VERSIONS[0]
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

    @property
    def pair(self) -> tuple[str, str]:
        """Certificate and key, both as PEM."""
        return self.client_certificate_data, self.client_key_data


class _Credential(Struct, rename="camel"):
    status: _Status | None = None


_CREDENTIAL = msgspec.json.Decoder(_Credential)


@dataclass(frozen=True, eq=False)
class Access:
    """The credentials of a request: a token for its header, a TLS context with a certificate."""

    token: str = field(repr=False)
    tls: ssl.SSLContext | None
    renew_at: float = float("inf")
    """When to run the program again, by the wall clock."""


class ExecLogin:
    """Runs the program when credentials are needed, and keeps them until they expire.

    ``make_tls`` makes a context with a certificate and key, or without for ``("", "")``. ``cluster``
    describes the cluster to a program that asks for it.
    """

    def __init__(
        self,
        config: ExecConfig,
        *,
        folder: Path,
        make_tls: Callable[[str, str], FileContext],
        cluster: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        _check(config)
        self._config = config
        # A relative path is relative to the kubeconfig; a bare name is looked for in $PATH.
        bare = "/" not in config.command
        self._command = config.command if bare else str(folder / config.command)
        self._cluster = cluster if config.provide_cluster_info else None
        self._make_tls = make_tls
        self._pair: tuple[str, str] | None = None
        self._tls: FileContext | None = None
        self._known: Access | None = None
        self._lock = threading.Lock()
        self._running: Future[Access] | None = None
        self._begin_lock = threading.Lock()

    def access(self) -> Access:
        """The credentials; blocks while the program runs."""
        with self._lock:
            known = self._good()
            if known is None:
                known = self._known = self._accepted(self._read(self._run()))
            return known

    def begin(self) -> "Future[Access]":
        """The credentials, as a future; concurrent callers share one run of the program.

        It runs in a thread of its own: a slow program must neither block a shared thread nor delay the exit.
        """
        with self._begin_lock:
            if self._running is not None:
                return self._running
            known, running = self._good(), Future[Access]()
            # One caller that gives up must not cancel the run for the others.
            running.set_running_or_notify_cancel()
            if known is not None:
                running.set_result(known)
            else:
                thread = threading.Thread(
                    target=self._run_into, args=(running,), name="bayplan-login", daemon=True
                )
                # If no thread can be started, this call raises and the next one tries again. The thread takes
                # our lock when it ends, so that it cannot end before the assignment below.
                thread.start()
                self._running = running
            return running

    def forget(self, refused: Access) -> None:
        """Forget credentials that the API server rejected, so that the program runs again.

        Ignored if they were replaced meanwhile.
        """
        # Not under the lock, which is held while the program runs.
        if self._known is refused:
            self._known = None

    def _good(self) -> Access | None:
        """The known credentials if they are still valid, with the cluster's present certificates."""
        known = self._known
        if known is None or time.time() >= known.renew_at:
            return None
        tls = self._tls.current() if self._tls else None
        if tls is not known.tls:
            known = self._known = replace(known, tls=tls)
        return known

    def _run_into(self, running: "Future[Access]") -> None:
        try:
            found, problem = self.access(), None
        except BaseException as error:
            found, problem = None, error
        with self._begin_lock:
            self._running = None
        if problem is not None:
            running.set_exception(problem)
        elif found is not None:
            running.set_result(found)

    def _run(self) -> bytes:
        config = self._config
        spec: dict[str, Any] = {"interactive": False}
        if self._cluster is not None:
            try:
                spec["cluster"] = self._cluster()
            except ValueError as error:
                raise ConnectError(f"exec: {config.command}: {error}") from error
        info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
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
        return done.stdout

    def _read(self, output: bytes) -> _Status:
        command = self._config.command
        try:
            status = _CREDENTIAL.decode(output).status
        except msgspec.MsgspecError as error:
            raise ConnectError(f"exec: {command}: not an ExecCredential: {error}") from error
        if status is None or not (status.token or any(status.pair)):
            raise ConnectError(f"exec: {command} gave no token and no certificate")
        if any(status.pair) and not all(status.pair):
            missing = "clientKeyData" if status.client_certificate_data else "clientCertificateData"
            raise ConnectError(f"exec: {command} gave half a certificate: no {missing}")
        return status

    def _accepted(self, status: _Status) -> Access:
        """The credentials in the program's answer; a new certificate gets a new context and connections."""
        if status.pair != self._pair:
            try:
                self._tls = self._make_tls(*status.pair)
            except ValueError as error:
                raise ConnectError(f"exec: {self._config.command}: {error}") from error
            self._pair = status.pair
        tls = self._tls.current() if self._tls else None
        return Access(status.token, tls, _renew_at(status.expiration_timestamp))


def _renew_at(expires: datetime | None) -> float:
    if expires is None:
        return float("inf")
    expires_at = expires.astimezone(UTC).timestamp()
    # For a short lifetime a fraction of it: otherwise the program would run for every request.
    return expires_at - min(_EARLY_SECONDS, max(expires_at - time.time(), 0.0) * _EARLY_PART)


def _check(config: ExecConfig) -> None:
    if config.api_version not in _VERSIONS:
        raise ValueError(f"exec: apiVersion {config.api_version!r}; want {' or '.join(_VERSIONS)}")
    mode = config.interactive_mode
    if mode == "Always":
        raise ValueError(
            f"exec: interactiveMode Always: {config.command} wants a terminal, and a server has none; "
            "use IfAvailable or Never, or another way to log in"
        )
    if mode is not None and mode not in _MODES:
        raise ValueError(f"exec: interactiveMode {mode!r}{suggest(mode, _MODES)}")
