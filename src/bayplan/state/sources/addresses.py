"""Recognises addresses where clouds serve credentials, in every notation."""

import ipaddress
from collections.abc import Iterator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Metadata services outside of the link-local range.
_METADATA = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"))
)
# IPv6 networks whose last 32 bits are an IPv4 address: NAT64, local NAT64, IPv4-compatible addresses.
_WRAPPING = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))


def forbidden(host: str) -> Address | None:
    """The forbidden address that ``host`` stands for; ``None`` for an allowed address and for a name."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0].rstrip("."))
    except ValueError:
        return None
    return next((each for each in _meant(found) if each.is_link_local or each in _METADATA), None)


def _meant(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 addresses that a network may translate it to."""
    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    if (inner := address.ipv4_mapped or address.sixtofour) is not None:
        yield inner
    if any(address in network for network in _WRAPPING):
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
