"""Addresses where clouds keep credentials, however they are written or wrapped."""

import ipaddress
from collections.abc import Iterator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Metadata services that are not link-local by their number.
_METADATA = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"))
)
# IPv6 addresses whose last 32 bits are an IPv4 address: NAT64, that of one's own, and compatible ones.
_WRAPPING = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))


def forbidden(host: str) -> Address | None:
    """The address behind these digits, where nobody should ask there; ``None`` also for a name."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0].rstrip("."))
    except ValueError:
        return None
    return next((each for each in _meant(found) if each.is_link_local or each in _METADATA), None)


def _meant(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 addresses that a network may make of it."""
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    if (inner := address.ipv4_mapped or address.sixtofour) is not None:
        yield inner
    if any(address in network for network in _WRAPPING):
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
