"""A CA of our own, and the certificates of the server and of kube-scheduler: ECDSA on P-256, as PEM.

The only file that knows the library for it, which is an extra: ``pip install 'bayplan[certs]'``.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bayplan.install.errors import InstallError

Purpose = Literal["server", "client"]
# A verifier's clock may be behind ours.
_BACKDATED = timedelta(hours=1)
# The last part has a letter: an address is no name, and nobody would find it among names.
_DNS_NAME = re.compile(
    r"(\*\.)?([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)*(?=[^.]*[a-z])[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.I
)
_LONGEST_NAME, _LONGEST_COMMON_NAME = 253, 64
_PURPOSES = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Facts:
    """What a certificate says."""

    name: str
    issuer: str
    begins: datetime
    ends: datetime
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()

    def days_left(self, now: datetime) -> float:
        """How long it is valid yet; below zero for one that has ended."""
        return (self.ends - now) / timedelta(days=1)

    @property
    def days(self) -> int:
        """How long it is valid in all, without the hour before it was made."""
        return round((self.ends - self.begins - _BACKDATED) / timedelta(days=1))


def make_authority(name: str, *, days: int, now: datetime | None = None) -> Pair:
    """A self-signed CA that may sign leaves and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_named(name), key, days=days, now=now)
    builder = builder.issuer_name(_named(name))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _signed(builder.add_extension(_usage(ca=True), critical=True), key, signer=key)


def issue(
    authority: Pair,
    name: str,
    *,
    purpose: Purpose,
    days: int,
    dns: Sequence[str] = (),
    ips: Sequence[str] = (),
    now: datetime | None = None,
) -> Pair:
    """A certificate of this CA; one for a server has every name that it is called by."""
    for each in dns:
        _refuse_no_dns_name(each)
    if purpose == "server":
        # Whoever calls looks at the names below; this one is for people, and has no room for long ones.
        name = name[:_LONGEST_COMMON_NAME]
    elif not 1 <= len(name) <= _LONGEST_COMMON_NAME:
        raise InstallError(f"{name!r}: the name of a caller has 1 to {_LONGEST_COMMON_NAME} characters")
    try:
        signer = load_pem_private_key(authority.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InstallError(f"the key of the CA, ca.key, cannot be read: {error}") from error
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise InstallError("the key of the CA is of another kind than those that `bayplan certs` makes")
    ca = x509.load_pem_x509_certificates(authority.certificate)[0]
    if signer.public_key() != ca.public_key():
        raise InstallError("the key of the CA, ca.key, is not that of its certificate, ca.crt")
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = _builder(_named(name), key, days=days, now=now)
    builder = builder.issuer_name(ca.subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(ca=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([_PURPOSES[purpose]]), critical=False)
    builder = builder.add_extension(identifier, critical=False)
    alternatives: list[x509.GeneralName] = [x509.DNSName(each) for each in dns]
    alternatives += [x509.IPAddress(_address(each)) for each in ips]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return _signed(builder, key, signer=signer)


def read(pem: bytes, *, source: str) -> list[Facts]:
    """What the certificates of a file say, in their order."""
    try:
        return [_facts(each) for each in x509.load_pem_x509_certificates(pem)]
    except ValueError as error:
        raise InstallError(f"{source}: there is no certificate in it: {error}") from error


def fault_of_key(pair: Pair) -> str:
    """Why the key is not that of the certificate, the first of its file; empty when it is."""
    try:
        key = load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        return f"it cannot be read as a key: {error}"
    certificate = x509.load_pem_x509_certificates(pair.certificate)[0]
    return "" if key.public_key() == certificate.public_key() else "it is not that of its certificate"


def is_signed_by(certificate: bytes, authorities: bytes) -> bool:
    """Whether one of the authorities has signed the first certificate of a file.

    So has one that comes after it in its own file: whoever has a chain sends all of it.
    """
    leaf, *chain = x509.load_pem_x509_certificates(certificate)
    return any(map(partial(_signs, leaf), (*x509.load_pem_x509_certificates(authorities), *chain)))


def _signs(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _facts(certificate: x509.Certificate) -> Facts:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    return Facts(
        name=_common_name(certificate.subject),
        issuer=_common_name(certificate.issuer),
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
        dns=tuple(names.get_values_for_type(x509.DNSName)),
        ips=tuple(str(each) for each in names.get_values_for_type(x509.IPAddress)),
    )


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _refuse_no_dns_name(text: str) -> None:
    if not _DNS_NAME.fullmatch(text) or len(text) > _LONGEST_NAME:
        raise InstallError(
            f"{text!r} is no DNS name, such as bayplan.kube-system.svc; addresses go with --ip"
        )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise InstallError(f"{text!r} is no IP address; names go with --dns") from error


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int, now: datetime | None
) -> x509.CertificateBuilder:
    start = now or datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(start - _BACKDATED).not_valid_after(start + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, *, signer: ec.EllipticCurvePrivateKey
) -> Pair:
    certificate = builder.sign(signer, hashes.SHA256())
    return Pair(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
