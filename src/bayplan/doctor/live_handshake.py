"""Calling an extender as kube-scheduler would, as far as the certificate: nothing is asked of it."""

import asyncio
import ssl
from datetime import datetime
from pathlib import Path

from bayplan.client.tls import client_context, pem
from bayplan.doctor.cluster import Handshake
from bayplan.doctor.scheduler_file import Entry, SchedulerFile
from bayplan.ops.expiry import certificate_ends

_SECONDS = 5.0


async def shake_hands(file: SchedulerFile, entry: Entry) -> Handshake:
    """Who answers at urlPrefix, until when, and whether the CA of the file vouches for it."""
    where, name = file.page.where(entry.at("urlPrefix")), entry.name
    try:
        if entry.scheme == "http":
            await _open(entry, None)
            return Handshake(where, name)
        ends = await _open(entry, client_context(verify=False))
    except (OSError, TimeoutError) as error:
        return Handshake(where, name, problem=str(error) or "no answer in time")
    context = _trusting(file, entry)
    if context is None:
        return Handshake(where, name, ends=ends)
    try:
        await _open(entry, context)
    except ssl.SSLCertVerificationError as error:
        return Handshake(where, name, ends=ends, refused=error.verify_message)
    except (OSError, TimeoutError) as error:
        return Handshake(where, name, ends=ends, problem=str(error) or "no answer in time")
    return Handshake(where, name, ends=ends)


async def _open(entry: Entry, context: ssl.SSLContext | None) -> datetime | None:
    assert entry.url is not None, "only those with an address are called"
    host = entry.url.hostname
    server_name = (entry.tls.text("serverName") or host) if context else None
    async with asyncio.timeout(_SECONDS):
        _, writer = await asyncio.open_connection(host, entry.port, ssl=context, server_hostname=server_name)
    try:
        shown = writer.get_extra_info("ssl_object")
        der = shown.getpeercert(binary_form=True) if shown else None
        return certificate_ends(der) if der else None
    except (ValueError, IndexError, KeyError):
        return None
    finally:
        writer.transport.abort()


def _trusting(file: SchedulerFile, entry: Entry) -> ssl.SSLContext | None:
    """A context that believes the CA of the entry; ``None`` where it is not here to be read."""
    named, data = entry.tls.text("caFile"), entry.tls.text("caData")
    path = Path(file.page.document.source).parent / named
    try:
        # Below a folder that is for root alone, even this is an error.
        if not data and not (named and path.is_file()):
            return None
        return client_context(authority_pem=pem(data, path))
    except (ValueError, OSError):
        return None
