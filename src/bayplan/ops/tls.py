"""Certificates of the server, and who may call it. Files are read anew when they change."""

import logging
import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bayplan.ops.expiry import chain_ends
from bayplan.ops.logs import Sparingly

log = logging.getLogger(__name__)

_refusals = Sparingly()
# Enough for a request that is on its way already; a caller who goes on after that is cut off.
_READS_AFTER_ALERT = 8
_PLAIN_HTTP = "HTTP_REQUEST"
_ADVICE = {
    _PLAIN_HTTP: "the caller speaks plain HTTP: its urlPrefix must begin with https://",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "the caller shows no certificate: its tlsConfig needs certFile and keyFile"
    ),
    "CERTIFICATE_VERIFY_FAILED": (
        "the caller's certificate is refused: it must be valid now, and of a CA in our clientCAFile"
    ),
}
_OUR_OWN_REFUSED = (
    "the caller refused our certificate: it must be valid now, of a CA in the caller's caFile, and have the"
    " host of its urlPrefix among its names; the caller's log says which it is"
)


class TlsError(Exception):
    """The certificates cannot be used; the text says which and why."""


@dataclass(frozen=True)
class TlsFiles:
    """Where the certificates are, and what is asked of callers."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    require_client_cert: bool = False
    allowed_names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if (self.require_client_cert or self.allowed_names) and self.client_ca_file is None:
            raise TlsError(
                "client authentication is asked for without a CA: set clientCAFile,"
                " or take away requireClientCert and allowedNames"
            )

    def fingerprint(self) -> tuple[bytes | None, ...]:
        """The contents of all files: another value means that something was replaced.

        Contents, since a Secret's files are swapped by a link and may keep their times.
        """
        return tuple(_content(path) for path in self._paths)

    def ends(self) -> datetime | None:
        """When the certificate, or one that came with it, ends; ``None`` where that cannot be read."""
        return chain_ends(self.cert_file)

    def context(self) -> ssl.SSLContext:
        """A server context from the files as they are now."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # kube-scheduler would otherwise choose HTTP/2, which this server does not speak.
        context.set_alpn_protocols(["http/1.1"])
        context.sslobject_class = _Handshake
        for what, path in (("certificate", self.cert_file), ("key", self.key_file)):
            _must_open(what, path)
        try:
            # Without a password OpenSSL would ask the terminal for that of an encrypted key, and wait.
            context.load_cert_chain(self.cert_file, self.key_file, password="")
        except (OSError, ValueError) as error:
            raise TlsError(
                f"certificate {self.cert_file} with key {self.key_file}: {_plain(error)}"
            ) from error
        if self.client_ca_file is not None:
            try:
                context.load_verify_locations(cafile=self.client_ca_file)
            except (OSError, ValueError) as error:
                raise TlsError(f"client CA {self.client_ca_file}: {_plain(error)}") from error
            wanted = self.require_client_cert or self.allowed_names
            context.verify_mode = ssl.CERT_REQUIRED if wanted else ssl.CERT_OPTIONAL
        return context

    def admits(self, peer_certificate: dict[str, Any] | None) -> str:
        """``""`` for a caller that is let in, else why not. The CA was checked in the handshake."""
        if not self.allowed_names:
            return ""
        names = certificate_names(peer_certificate or {})
        if names & self.allowed_names:
            return ""
        shown = ", ".join(sorted(names)) or "no name"
        return f"the caller's certificate has {shown}, which allowedNames does not list"

    @property
    def _paths(self) -> list[Path]:
        return [p for p in (self.cert_file, self.key_file, self.client_ca_file) if p is not None]


class _Handshake(ssl.SSLObject):
    """Tells both sides why a handshake failed.

    asyncio and uvloop drop the error without a word, and the alert with it: kube-scheduler would say
    nothing but "EOF". They do send what is waiting when a handshake wants to read on.
    """

    _failure: ssl.SSLError | None = None
    _reads = 0

    def do_handshake(self) -> None:
        """One step of the handshake."""
        if self._failure is None:
            try:
                return super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                self._failure = error
                if error.reason == _PLAIN_HTTP:
                    # It reads no alert, and would wait until its own patience ends.
                    self._reads = _READS_AFTER_ALERT
                told = f"the TLS handshake with a caller failed: {error}{_advice(error)}"
                _refusals.warn(log, told, told)
        self._reads += 1
        raise self._failure if self._reads > _READS_AFTER_ALERT else ssl.SSLWantReadError


def _advice(error: ssl.SSLError) -> str:
    """Whose certificate it was, and what to look at: OpenSSL's words leave both open."""
    reason = error.reason or ""
    # An alert comes from the other side: SSLV3_ALERT_BAD_CERTIFICATE, TLSV1_ALERT_UNKNOWN_CA and the like.
    refused = "_ALERT_" in reason and ("CERTIFICATE" in reason or reason.endswith("UNKNOWN_CA"))
    text = _OUR_OWN_REFUSED if refused else _ADVICE.get(reason, "")
    return f"; {text}" if text else ""


def certificate_names(certificate: dict[str, Any]) -> set[str]:
    """Common name and DNS names of a certificate as `ssl` shows it."""
    subject = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    return subject | {value for key, value in certificate.get("subjectAltName", ()) if key == "DNS"}


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _must_open(what: str, path: Path) -> None:
    """OpenSSL does not say which of two files it could not read."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise TlsError(f"{what} {path}: {_plain(error)}") from error


def _plain(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
    return str(reason)
