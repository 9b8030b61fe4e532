"""Certificates: who is believed, who may call, and until when."""

import base64
import binascii
import re
import ssl
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from bayplan.doctor.extender_entry import may_be_ours
from bayplan.doctor.finding import Finding, Page, Put, Repair, Trap
from bayplan.doctor.ours import Ours
from bayplan.doctor.scheduler_file import Entry, SchedulerFile
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_tls import (
    CERTIFICATE_EXPIRED,
    CERTIFICATE_EXPIRING,
    CERTIFICATE_UNREADABLE,
    HTTPS_IN_NAME_ONLY,
    HTTPS_SYSTEM_CA,
    HTTPS_WITHOUT_CA,
    NO_CLIENT_CERTIFICATE,
    OPEN_DOOR,
    PLAIN_HTTP,
    TLS_HALF_PAIR,
    TLS_INSECURE,
)
from bayplan.kube.yaml import Path as KeyPath
from bayplan.ops.expiry import certificate_ends

SOON = timedelta(days=30)
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PAIRS = (("certFile", "keyFile"), ("certData", "keyData"))


def check_tls(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    """How each extender is reached, and with which certificates."""
    for entry in file.entries:
        yield from _scheme(file, entry)
        yield from _config(file, entry)
        yield from _caller(file, entry, setting)
        yield from _ends(file, entry, setting)


def check_our_door(ours: Ours, setting: Setting) -> Iterator[Finding]:
    """Who may call us, and until when our own certificates are good."""
    if not ours.on_loopback and not ours.wants_certificate:
        what = f"Bayplan listens on {ours.listen_text} and asks no caller for a certificate"
        at: KeyPath = ("extender", "tls") if ours.tls else ("extender", "listen")
        yield ours.page.found(OPEN_DOOR, at, what)
    for path, named in ours.certificates().items():
        yield from _of_file(ours.page, path, named, setting)


def certificate_files(file: SchedulerFile) -> Iterator[tuple[KeyPath, Path]]:
    """The files with certificates that the extenders name."""
    base = Path(file.page.document.source).parent
    for entry in file.entries:
        for key in ("caFile", "certFile"):
            if text := entry.tls.text(key):
                yield entry.tls.at(key), base / text


def ends_soon(ends: datetime, now: datetime) -> tuple[Trap, str] | None:
    """Which trap it is when a certificate ends then, and when that is, in words."""
    days = (ends - now).total_seconds() / 86400
    if days <= 0:
        return CERTIFICATE_EXPIRED, f"ended on {ends:%Y-%m-%d}"
    if ends - now < SOON:
        return CERTIFICATE_EXPIRING, f"ends on {ends:%Y-%m-%d}, in {days:.1f} days"
    return None


def _scheme(file: SchedulerFile, entry: Entry) -> Iterator[Finding]:
    at = entry.at("urlPrefix")
    if entry.scheme == "http":
        if entry.flag("enableHTTPS"):
            what = "urlPrefix begins with http://, and enableHTTPS is true"
            yield file.found(HTTPS_IN_NAME_ONLY, entry.at("enableHTTPS"), what)
        elif entry.tls.has("certFile") or entry.has_ca:
            what = "urlPrefix begins with http://, and tlsConfig has certificates"
            yield file.found(HTTPS_IN_NAME_ONLY, entry.at("tlsConfig"), what)
        elif not entry.local:
            yield file.found(PLAIN_HTTP, at, f"{entry.name} is called without TLS")
    elif entry.scheme == "https" and not entry.has_ca and not entry.tls.flag("insecure"):
        if entry.flag("enableHTTPS"):
            yield file.found(
                HTTPS_WITHOUT_CA, entry.at("enableHTTPS"), "enableHTTPS without caFile or caData"
            )
        else:
            yield file.found(HTTPS_SYSTEM_CA, at, "https:// without caFile or caData")


def _config(file: SchedulerFile, entry: Entry) -> Iterator[Finding]:
    tls = entry.tls
    if tls.flag("insecure"):
        repairs: tuple[Repair, ...] = (Put(tls.at("insecure"), value=False),) if entry.has_ca else ()
        what = "insecure: true" + (", beside a CA" if entry.has_ca else "")
        yield file.found(
            TLS_INSECURE,
            tls.at("insecure"),
            what,
            severity="error" if entry.has_ca else "warning",
            repairs=repairs,
        )
    has_pair = [(tls.has(cert), tls.has(key)) for cert, key in _PAIRS]
    certificate, key = any(pair[0] for pair in has_pair), any(pair[1] for pair in has_pair)
    if certificate != key:
        missing = "keyFile" if certificate else "certFile"
        yield file.found(TLS_HALF_PAIR, tls.path, f"{missing} is missing")


def _caller(file: SchedulerFile, entry: Entry, setting: Setting) -> Iterator[Finding]:
    ours = setting.ours
    if ours is None or not ours.wants_certificate or not may_be_ours(file, entry, setting):
        return
    if not (entry.tls.has("certFile") or entry.tls.has("certData")):
        what = "no certFile or certData, and Bayplan asks callers for a certificate"
        yield file.found(NO_CLIENT_CERTIFICATE, entry.at("tlsConfig"), what)


def _ends(file: SchedulerFile, entry: Entry, setting: Setting) -> Iterator[Finding]:
    for path, named in certificate_files(file):
        if path[: len(entry.path)] == entry.path:
            yield from _of_file(file.page, path, named, setting)
    for key in ("caData", "certData"):
        text = entry.tls.text(key)
        if not text:
            continue
        ends = pem_ends(text)
        if ends is None:
            yield file.found(CERTIFICATE_UNREADABLE, entry.tls.at(key), f"{key} is no base64 of PEM")
        elif (soon := ends_soon(ends, setting.now)) is not None:
            yield file.found(soon[0], entry.tls.at(key), f"the certificate in {key} {soon[1]}")


def _of_file(page: Page, path: KeyPath, named: Path, setting: Setting) -> Iterator[Finding]:
    if named not in setting.certificates:
        return
    ends = setting.certificates[named]
    if ends is None:
        yield page.found(CERTIFICATE_UNREADABLE, path, f"no certificate can be read in {named}")
    elif (soon := ends_soon(ends, setting.now)) is not None:
        yield page.found(soon[0], path, f"the certificate in {named} {soon[1]}")


def pem_ends(text: str) -> datetime | None:
    """When the first certificate in base64 of PEM ends; ``None`` where there is none."""
    try:
        pems = _PEM.findall(base64.b64decode("".join(text.split())).decode("ascii", errors="ignore"))
        return min((certificate_ends(ssl.PEM_cert_to_DER_cert(pem)) for pem in pems), default=None)
    except (binascii.Error, ValueError, IndexError, KeyError):
        return None
