"""Certificates for tests: an authority, and what it issues, as PEM files.

Every certificate carries key usage and key identifiers: from Python 3.13 on, the default SSL
context verifies strictly and refuses a chain without them.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class KeyPair:
    """A certificate, or a public key, and its private key: two PEM files."""

    cert: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """A certificate authority that writes what it issues into `directory`."""

    directory: Path
    files: KeyPair
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def cert(self) -> Path:
        """The authority's own certificate: what a verifier needs."""
        return self.files.cert

    def issue(
        self,
        name: str,
        *,
        dns: Sequence[str] = (),
        ips: Sequence[str] = (),
        organizations: Sequence[str] = (),
        client: bool = False,
        server: bool = False,
        days: float = 1.0,
        filename: str | None = None,
    ) -> KeyPair:
        """Issue a certificate with the common name `name`.

        To Kubernetes, the common name of a client is the user and `organizations` are the
        groups. Negative `days` make one that expired that long ago.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH] if client else []
        purposes += [ExtendedKeyUsageOID.SERVER_AUTH] if server else []
        builder = (
            _builder(_name(name, organizations), key.public_key(), days=days)
            .issuer_name(self.certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        if purposes:
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        alternatives: list[x509.GeneralName] = [x509.DNSName(entry) for entry in dns]
        alternatives += [x509.IPAddress(ipaddress.ip_address(entry)) for entry in ips]
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return _write(self.directory, filename or name.replace(":", "-"), certificate, key)


def make_ca(common_name: str, directory: Path, *, days: float = 2.0) -> Authority:
    """Make a self-signed authority in `directory`, which is created."""
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(common_name)
    certificate = (
        _builder(name, key.public_key(), days=days)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = _write(directory, common_name.replace(":", "-"), certificate, key)
    return Authority(directory, files, certificate, key)


def make_service_account_keys(directory: Path) -> KeyPair:
    """Write the RSA pair that signs and verifies service account tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pair = KeyPair(directory / "service-accounts.pub", directory / "service-accounts.key")
    pair.cert.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    _write_key(pair.key, key)
    return pair


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, public_key: ec.EllipticCurvePublicKey, *, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    # One hour back: a verifier's clock may be behind ours.
    start = min(now, end) - timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
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


def _write(directory: Path, stem: str, certificate: x509.Certificate, key: PrivateKey) -> KeyPair:
    pair = KeyPair(directory / f"{stem}.crt", directory / f"{stem}.key")
    pair.cert.write_bytes(certificate.public_bytes(Encoding.PEM))
    _write_key(pair.key, key)
    return pair


def _write_key(path: Path, key: PrivateKey) -> None:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
