"""Reads when a certificate expires from its bytes: `ssl` says that only of a verified peer.

Of the nested values of X.509, only the first few have to be parsed.
"""

import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION = 0xA0
_UTC_TIME = 0x17
_FORMATS = {_UTC_TIME: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
_YEARS_OF_TWO_DIGITS_END = 2050


def chain_ends(cert_file: Path) -> datetime | None:
    """When the first certificate of a chain expires; ``None`` if it cannot be read."""
    try:
        text = cert_file.read_text(errors="replace")
        ends = [certificate_ends(ssl.PEM_cert_to_DER_cert(pem)) for pem in _PEM.findall(text)]
    except (OSError, ValueError, IndexError, KeyError):
        # OpenSSL validates certificates; this is only a number for people, and must not be stricter.
        return None
    return min(ends, default=None)


def certificate_ends(der: bytes) -> datetime:
    """``notAfter`` of one certificate."""
    ((_, certificate),) = _values(der)
    (_, to_be_signed), *_ = _values(certificate)
    fields = [value for tag, value in _values(to_be_signed) if tag != _VERSION]
    # serialNumber, signature, issuer, validity
    _, (tag, text) = _values(fields[3])
    end = datetime.strptime(text.decode("ascii"), _FORMATS[tag]).replace(tzinfo=UTC)
    # Two-digit years below 69 are 20xx in Python; in X.509 those below 50 are.
    return (
        end.replace(year=end.year - 100) if tag == _UTC_TIME and end.year >= _YEARS_OF_TWO_DIGITS_END else end
    )


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each value, one after another."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[at : at + size])
            at += size
        yield tag, data[at : at + length]
        at += length
