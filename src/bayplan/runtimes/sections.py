"""Options that all doors derive from the configuration: addresses, files, tracing, the Lease identity."""

import socket
import uuid
from collections.abc import Mapping
from pathlib import Path

from bayplan.config.load import SettingError
from bayplan.config.v1 import JournalFileSection, PageSection, RecordSection, TracingSection
from bayplan.ops.tracing import TracingOptions
from bayplan.recording.journal_file import JournalFileOptions
from bayplan.recording.recorder import RecordOptions
from bayplan.runtimes.listener import EVERY_ADDRESS, Address, is_loopback

_ANY = {EVERY_ADDRESS, "0.0.0.0"}  # noqa: S104 - compared, not listened on


def address(text: str, *, key: str) -> Address:
    """``("127.0.0.1", 8888)`` out of ``127.0.0.1:8888``, ``:8888`` or ``[::1]:8888``."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise SettingError(key, f": {text!r} is not HOST:PORT, such as 127.0.0.1:8888")
    if int(port) > 65535:
        raise SettingError(key, f": {text!r}: there is no port above 65535")
    return host.strip("[]") or EVERY_ADDRESS, int(port)


def page_address(section: PageSection) -> Address | None:
    """The address of the page; ``None`` for no page."""
    if section.listen == "off":
        return None
    found = address(section.listen, key="page.listen")
    if not section.token_file and not is_loopback(found[0]):
        raise SettingError(
            "page.listen",
            f": {section.listen} is reached by others: give page.tokenFile, or listen on 127.0.0.1",
        )
    return found


def check_apart(addresses: Mapping[str, Address | None]) -> None:
    """Refuse two listeners on one address; a port of 0 is a free one, each time another."""
    seen: dict[str, Address] = {}
    for key, each in addresses.items():
        if each is None or not each[1]:
            continue
        for other, (host, port) in seen.items():
            if port == each[1] and (host == each[0] or not _ANY.isdisjoint((host, each[0]))):
                raise SettingError(
                    key, f": port {port} is also that of {other}; give one of them another port"
                )
        seen[key] = each


def journal_file(section: JournalFileSection | None, base: Path) -> JournalFileOptions | None:
    """The options of the journal's file; ``None`` to keep decisions in memory only."""
    if section is None:
        return None
    return JournalFileOptions(base / section.path, section.max_bytes, section.keep)


def record_options(section: RecordSection, base: Path) -> RecordOptions | None:
    """The options of the recording, for replays; ``None`` for none."""
    if not section.file:
        return None
    return RecordOptions(base / section.file, section.max_bytes, section.snapshot_every.seconds)


def tracing_options(section: TracingSection) -> TracingOptions | None:
    """Where to send spans; ``None`` for nowhere."""
    endpoint = section.otlp_endpoint
    if not endpoint:
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise SettingError(
            "tracing.otlpEndpoint",
            f": {endpoint!r} is no address of OTLP over HTTP, such as http://collector:4318",
        )
    return TracingOptions(endpoint, section.sample_ratio)


def identity(listen: Address) -> str:
    """The holder identity of a Lease: the same after a restart, and unique while we listen there.

    Machines and containers may share a host name, so boot id and network namespace are part of it.
    """
    unique = uuid.uuid4().hex[:8]
    if not listen[1]:
        return f"{socket.gethostname()}-{unique}"
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        network = Path("/proc/self/ns/net").stat().st_ino
    except OSError:  # not Linux
        return f"{socket.gethostname()}-{unique}"
    return f"{socket.gethostname()}-{listen[0]}:{listen[1]}-{boot}-{network}"
