"""When a certificate ends is read from its bytes as others read it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from bayplan.ops.expiry import certificate_ends, chain_ends


def made(ends: datetime, *, rsa_key: bool = False) -> x509.Certificate:
    key = rsa.generate_private_key(65537, 2048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "extender")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(ends - timedelta(days=1)).not_valid_after(ends)
    return builder.sign(key, hashes.SHA256())


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(datetime(2027, 2, 3, 4, 5, 6, tzinfo=UTC), id="soon"),
        pytest.param(datetime(2020, 1, 1, tzinfo=UTC), id="in the past"),
        pytest.param(datetime(1955, 7, 20, tzinfo=UTC), id="in the fifties"),
        pytest.param(datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC), id="the last year of two digits"),
        pytest.param(datetime(2050, 1, 1, 12, tzinfo=UTC), id="the first of four"),
        pytest.param(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), id="never"),
    ],
)
def test_a_certificate_ends_when_it_says(ends: datetime) -> None:
    assert certificate_ends(made(ends).public_bytes(Encoding.DER)) == ends


def test_a_large_one_with_an_rsa_key_too() -> None:
    ends = datetime(2030, 1, 1, tzinfo=UTC)

    assert certificate_ends(made(ends, rsa_key=True).public_bytes(Encoding.DER)) == ends


def test_a_chain_ends_with_the_first_of_its_certificates(tmp_path: Path) -> None:
    early, late = datetime(2028, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    leaf, authority = (made(end).public_bytes(Encoding.PEM) for end in (late, early))
    (tmp_path / "tls.crt").write_bytes(b"# our own\n" + leaf + b"\n" + authority)

    assert chain_ends(tmp_path / "tls.crt") == early


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe not PEM", id="not PEM"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----", id="not base64"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----", id="too short"),
        pytest.param(
            b"-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----", id="something else"
        ),
    ],
)
def test_what_cannot_be_read_has_no_end(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tls.crt").write_bytes(content)

    assert chain_ends(tmp_path / "tls.crt") is None
    assert chain_ends(tmp_path / "is not there") is None
