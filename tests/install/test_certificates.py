"""Certificates: what they are good for, how they are kept, and how a CA takes over from another."""

from __future__ import annotations

import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from bayplan.install.certificate_files import (
    create,
    create_lost,
    forget_old_authority,
    reissue,
    renew,
    rotate_authority,
    secret_data,
    show,
)
from bayplan.install.certificates import Purpose
from bayplan.install.errors import InstallError
from bayplan.ops.tls import TlsFiles

NAME = "bayplan.kube-system.svc"
Change = Callable[[Path], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A CA and both certificates, for a year."""
    made = tmp_path / "certs"
    create(made, dns=[NAME], ips=["127.0.0.1"], days=365, ca_days=3650)
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shakes_hands(server: Path, client: Path, *, name: str = NAME) -> bool:
    """Whether a server with the files of one folder and a caller with those of another trust each other."""
    files = TlsFiles(
        server / "server.crt",
        server / "server.key",
        client_ca_file=server / "ca.crt",
        require_client_cert=True,
        allowed_names=frozenset({"kube-scheduler"}),
    )
    context = ssl.create_default_context(cafile=str(client / "ca.crt"))
    context.load_cert_chain(client / "client.crt", client / "client.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = context.wrap_bio(to_client, to_server, server_hostname=name)
    served = files.context().wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(4):
            for side in (caller, served):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        return not files.admits(served.getpeercert())
    except (ssl.SSLError, ValueError):
        # ValueError: the server went away before the end, and there is no certificate to look at.
        return False


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for name, content in contents(folder).items():
        (to / name).write_bytes(content)
    return to


@pytest.mark.parametrize("name", [NAME, "127.0.0.1"])
def test_a_server_and_its_caller_trust_each_other(folder: Path, name: str) -> None:
    assert shakes_hands(folder, folder, name=name)


def test_another_name_is_not_the_servers(folder: Path) -> None:
    assert not shakes_hands(folder, folder, name="other.kube-system.svc")


def test_those_of_another_ca_are_strangers(folder: Path, tmp_path: Path) -> None:
    create(tmp_path / "other", dns=[NAME], ips=[], days=1, ca_days=1)

    assert not shakes_hands(folder, tmp_path / "other")


def test_keys_are_of_p256_and_for_the_owner_alone(folder: Path) -> None:
    for name in ("ca.key", "server.key", "client.key"):
        key = load_pem_private_key((folder / name).read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        assert key.curve.name == "secp256r1"
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert sorted(contents(folder)) == [
        "ca.crt",
        "ca.key",
        "client.crt",
        "client.key",
        "server.crt",
        "server.key",
    ]


def test_a_certificate_is_good_for_one_thing(folder: Path) -> None:
    def usages(name: str) -> list[str]:
        found = x509.load_pem_x509_certificate((folder / name).read_bytes())
        return [each._name for each in found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value]

    ca = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    assert usages("server.crt") == ["serverAuth"]
    assert usages("client.crt") == ["clientAuth"]
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


def test_files_that_are_there_stay(folder: Path) -> None:
    before = contents(folder)

    with pytest.raises(InstallError, match=r"is there already.*renew"):
        create(folder, dns=[NAME], ips=[], days=1, ca_days=1)
    assert contents(folder) == before

    create(folder, dns=[NAME], ips=[], days=1, ca_days=1, force=True)
    assert all(contents(folder)[name] != before[name] for name in before)


def test_a_ca_made_anew_has_no_next_one(folder: Path) -> None:
    rotate_authority(folder)

    create(folder, dns=[NAME], ips=[], days=1, ca_days=1, force=True)

    assert not {"next.key", "next.crt"} & set(contents(folder))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("bad_name!", id="other characters"),
        pytest.param("10.0.0.1", id="an address"),
        pytest.param("fd00::1", id="an address of IPv6"),
        pytest.param("https://bayplan.svc", id="a URL"),
        pytest.param("bayplan.svc:8888", id="with a port"),
        pytest.param("a..b", id="an empty part"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_is_no_dns_name_is_refused_and_nothing_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="is no DNS name"):
        create(tmp_path, dns=[name], ips=[], days=1, ca_days=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["bayplan", "bayplan.kube-system.svc", "*.team-1.svc", "3.example.com", "long." * 20 + "svc"]
)
def test_dns_names_are_taken(name: str, tmp_path: Path) -> None:
    create(tmp_path, dns=[name], ips=["fd00::1"], days=1, ca_days=1)

    assert show(tmp_path)[1].facts.dns == (name,)


@pytest.mark.parametrize("name", [pytest.param("", id="empty"), pytest.param("k" * 65, id="too long")])
def test_a_caller_has_a_name_that_a_certificate_can_hold(name: str, tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="1 to 64 characters"):
        create(tmp_path, dns=["bayplan.svc"], ips=[], days=1, ca_days=1, client=name)


def test_a_server_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="--dns or --ip"):
        create(tmp_path, dns=[], ips=[], days=1, ca_days=1)
    with pytest.raises(InstallError, match="names go with --dns"):
        create(tmp_path, dns=[], ips=["localhost"], days=1, ca_days=1)
    assert contents(tmp_path) == {}


def test_what_lasts_long_enough_is_not_renewed(folder: Path) -> None:
    before = contents(folder)

    assert renew(folder, before_days=30) == []
    assert contents(folder) == before


def test_what_ends_soon_is_renewed_with_its_names_by_the_same_ca(folder: Path, tmp_path: Path) -> None:
    old = copied(folder, tmp_path / "old")
    later = datetime.now(UTC) + timedelta(days=340)

    written = renew(folder, before_days=30, now=later)

    assert [path.name for path in written] == ["server.key", "server.crt", "client.key", "client.crt"]
    ends = {each.file: each.facts.ends for each in show(folder)}
    assert ends["server.crt"] > later + timedelta(days=364)
    server = next(each.facts for each in show(folder) if each.file == "server.crt")
    assert (server.dns, server.ips, server.days) == ((NAME,), ("127.0.0.1",), 365)
    assert (folder / "ca.crt").read_bytes() == (old / "ca.crt").read_bytes()
    assert (folder / "server.key").read_bytes() != (old / "server.key").read_bytes()


def test_nothing_outlives_its_ca(folder: Path) -> None:
    renew(folder, before_days=30, now=datetime.now(UTC) + timedelta(days=3600))

    ends = {each.file: each.facts.ends for each in show(folder)}
    assert ends["server.crt"] <= ends["ca.crt"]


def test_one_of_no_days_is_renewed_to_a_day(tmp_path: Path) -> None:
    create(tmp_path, dns=[NAME], ips=[], days=0, ca_days=3650)

    renew(tmp_path, before_days=30)

    assert [each.facts.days for each in show(tmp_path)] == [3650, 1, 1]


@pytest.mark.parametrize("step", [lambda folder, now: renew(folder, before_days=0, now=now), reissue])
def test_a_ca_of_less_than_a_day_makes_none_that_have_ended(
    step: Callable[..., object], folder: Path
) -> None:
    before = contents(folder)

    with pytest.raises(InstallError, match="--rotate-ca, --reissue and --forget-old-ca"):
        step(folder, now=datetime.now(UTC) + timedelta(days=3649, hours=12))
    assert contents(folder) == before


def test_a_ca_that_ends_soon_is_told(folder: Path) -> None:
    with pytest.raises(InstallError, match="--rotate-ca, --reissue and --forget-old-ca"):
        renew(folder, before_days=30, now=datetime.now(UTC) + timedelta(days=3640))


def test_a_new_ca_takes_over_and_nobody_is_turned_away(folder: Path, tmp_path: Path) -> None:
    stages = [copied(folder, tmp_path / "before")]
    steps: list[Change] = [rotate_authority, reissue, forget_old_authority]
    for step in steps:
        step(folder)
        stages.append(copied(folder, tmp_path / step.__name__))

    # At each step one side may have read its new files and the other not yet.
    for earlier, later in pairwise(stages):
        for server, client in ((earlier, later), (later, earlier), (later, later)):
            assert shakes_hands(server, client), (server.name, client.name)
    assert not shakes_hands(stages[0], stages[-1])
    assert not (folder / "next.key").exists()


def test_steps_in_another_order_are_refused(folder: Path) -> None:
    rotate_authority(folder)

    with pytest.raises(InstallError, match="--reissue"):
        rotate_authority(folder)
    with pytest.raises(InstallError, match="--reissue comes before"):
        forget_old_authority(folder)


def test_during_a_rotation_renewal_is_by_the_ca_that_all_trust(folder: Path, tmp_path: Path) -> None:
    before = copied(folder, tmp_path / "before")
    rotate_authority(folder)

    renew(folder, before_days=30, now=datetime.now(UTC) + timedelta(days=340))

    authorities = (before / "ca.crt").read_bytes()
    assert (folder / "ca.crt").read_bytes().startswith(authorities)
    assert (folder / "ca.key").read_bytes() == (before / "ca.key").read_bytes()


def test_what_cannot_be_written_leaves_everything_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(folder)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InstallError, match="No space left"):
        reissue(folder)

    assert contents(folder) == before


def test_a_folder_without_certificates_is_told(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="certs create --out"):
        show(tmp_path)
    (tmp_path / "ca.crt").write_text("hello")
    with pytest.raises(InstallError, match="no certificate in it"):
        show(tmp_path)


def test_a_key_that_is_not_the_cas_signs_nothing(folder: Path, tmp_path: Path) -> None:
    create(tmp_path / "other", dns=[NAME], ips=[], days=1, ca_days=1)
    before = (folder / "server.crt").read_bytes()

    (folder / "ca.key").write_text("hello")
    with pytest.raises(InstallError, match="cannot be read"):
        renew(folder, before_days=400)
    (folder / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(InstallError, match="not that of its certificate"):
        renew(folder, before_days=400)

    assert (folder / "server.crt").read_bytes() == before


@pytest.mark.parametrize("side", ["server", "client"])
def test_a_lost_certificate_is_made_anew_by_the_same_ca(side: str, folder: Path, tmp_path: Path) -> None:
    before = copied(folder, tmp_path / "before")
    (folder / f"{side}.crt").unlink()
    names = [NAME] if side == "server" else []

    for look in (show, reissue, lambda folder: renew(folder, before_days=30)):
        with pytest.raises(InstallError, match=rf"{side}.crt: No such file.* create --out .* --keep-ca"):
            look(folder)
    with pytest.raises(InstallError, match="--keep-ca makes what is lost"):
        create(folder, dns=[NAME], ips=[], days=1, ca_days=1)
    written = create_lost(folder, dns=names, ips=[], days=100)

    assert [path.name for path in written] == [f"{side}.key", f"{side}.crt"]
    changed = {name for name, content in contents(folder).items() if content != contents(before)[name]}
    assert changed == {f"{side}.key", f"{side}.crt"}
    assert shakes_hands(folder, before)
    assert shakes_hands(before, folder)


def test_other_names_are_made_by_the_same_ca_when_they_are_forced(folder: Path, tmp_path: Path) -> None:
    before = copied(folder, tmp_path / "before")
    with pytest.raises(InstallError, match=r"nothing is lost in .* renew"):
        create_lost(folder, dns=["other.svc"], ips=[], days=100)
    (folder / "client.crt").unlink()
    with pytest.raises(InstallError, match=r"server.crt is there already, and stays: leave --dns and --ip"):
        create_lost(folder, dns=["other.svc"], ips=[], days=100)

    create_lost(folder, dns=["other.svc"], ips=[], days=100, force=True)

    assert shakes_hands(folder, before, name="other.svc")
    assert not shakes_hands(folder, before, name=NAME)


def test_what_a_kept_ca_cannot_make_is_told(folder: Path, tmp_path: Path) -> None:
    (folder / "server.crt").unlink()
    before = contents(folder)

    with pytest.raises(InstallError, match="the server has no name: give --dns or --ip"):
        create_lost(folder, dns=[], ips=[], days=100)
    with pytest.raises(InstallError, match=r"outlive their CA, which ends on .*: give --days 3649 or fewer"):
        create_lost(folder, dns=[NAME], ips=[], days=3651)
    assert contents(folder) == before
    with pytest.raises(InstallError, match=r"certs create --out .* --dns NAME` makes a CA"):
        create_lost(tmp_path / "empty", dns=[NAME], ips=[], days=100)
    create(tmp_path / "ended", dns=[NAME], ips=[], days=0, ca_days=0)
    with pytest.raises(InstallError, match="--force without --keep-ca makes everything anew"):
        create_lost(tmp_path / "ended", dns=[NAME], ips=[], days=1)


@pytest.mark.parametrize("side", ["server", "client"])
def test_a_lost_key_is_renewed_with_its_certificate(side: Purpose, folder: Path) -> None:
    (folder / f"{side}.key").unlink()

    with pytest.raises(InstallError, match=rf"{side}.key: No such file.* `bayplan certs renew .*` makes it"):
        secret_data(folder, side)
    written = renew(folder, before_days=30)

    assert [path.name for path in written] == [f"{side}.key", f"{side}.crt"]
    assert shakes_hands(folder, folder)


def test_a_new_ca_takes_over_from_one_whose_key_is_lost(folder: Path, tmp_path: Path) -> None:
    before = copied(folder, tmp_path / "before")
    (folder / "ca.key").unlink()
    with pytest.raises(InstallError, match=r"ca.key: No such file.* put the right one back .* three steps"):
        renew(folder, before_days=30)

    rotate_authority(folder)
    assert shakes_hands(folder, before)
    reissue(folder)
    forget_old_authority(folder)

    assert shakes_hands(folder, folder)
    assert renew(folder, before_days=400) != []


def test_a_key_and_a_certificate_that_are_lost_leave_one_way(folder: Path) -> None:
    (folder / "ca.key").unlink()
    (folder / "server.crt").unlink()

    with pytest.raises(
        InstallError, match=r"ca.key: No such file.* put the right .* --dns NAME --force` makes"
    ):
        create_lost(folder, dns=[NAME], ips=[], days=1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("ca.crt", "put it back, the Secrets of both sides hold it, too", id="the CA"),
        pytest.param("next.crt", r"remove .*, and begin anew: .* --rotate-ca`", id="the next CA"),
    ],
)
def test_a_lost_certificate_of_a_ca_has_its_own_way_out(name: str, said: str, folder: Path) -> None:
    rotate_authority(folder)
    (folder / name).unlink()

    with pytest.raises(InstallError, match=rf"{name}: No such file or directory; {said}"):
        reissue(folder)


@pytest.mark.parametrize(("lost", "left"), [("next.crt", "next.key"), ("next.key", "next.crt")])
def test_half_a_next_ca_is_no_reason_to_stay_with_the_old_one(
    lost: str, left: str, folder: Path, tmp_path: Path
) -> None:
    before = copied(folder, tmp_path / "before")
    rotate_authority(folder)
    (folder / lost).unlink()

    with pytest.raises(InstallError, match=rf"{lost}: No such file .* begin anew"):
        reissue(folder)
    with pytest.raises(InstallError, match="--reissue comes before"):
        forget_old_authority(folder)
    (folder / left).unlink()
    rotate_authority(folder)
    assert shakes_hands(folder, before)
    reissue(folder)
    forget_old_authority(folder)

    assert shakes_hands(folder, folder)


NO_KEY_OF_ITS_OWN = [
    pytest.param(lambda _: b"", "it cannot be read as a key", id="empty"),
    pytest.param(lambda folder: (folder / "server.crt").read_bytes(), "cannot be read as a key", id="no key"),
    pytest.param(
        lambda folder: (folder / "ca.key").read_bytes(), "not that of its certificate", id="another"
    ),
]


@pytest.mark.parametrize(("content", "said"), NO_KEY_OF_ITS_OWN)
@pytest.mark.parametrize("side", ["server", "client"])
def test_a_key_is_that_of_its_certificate(
    side: Purpose, content: Callable[[Path], bytes], said: str, folder: Path
) -> None:
    (folder / f"{side}.key").write_bytes(content(folder))

    for look in (show, lambda folder: secret_data(folder, side)):
        with pytest.raises(InstallError, match=rf"{side}.key: .*{said}.*; `bayplan certs renew .*` makes it"):
            look(folder)
    written = renew(folder, before_days=30)

    assert [path.name for path in written] == [f"{side}.key", f"{side}.crt"]
    assert len(show(folder)) == 3
    assert shakes_hands(folder, folder)


@pytest.mark.parametrize("side", ["server", "client"])
def test_a_certificate_of_a_ca_that_nobody_trusts_is_told_and_renewed(
    side: Purpose, folder: Path, tmp_path: Path
) -> None:
    """Such as one that was put back from a copy, with its key, after a new CA had taken over."""
    create(tmp_path / "others", dns=[NAME], ips=[], days=365, ca_days=3650)
    for end in ("crt", "key"):
        (folder / f"{side}.{end}").write_bytes((tmp_path / "others" / f"{side}.{end}").read_bytes())
    assert not shakes_hands(folder, folder)

    for look in (show, lambda folder: secret_data(folder, side)):
        with pytest.raises(
            InstallError, match=rf"{side}.crt is of no CA in .*ca.crt.*; `bayplan certs renew"
        ):
            look(folder)
    written = renew(folder, before_days=30)

    assert [path.name for path in written] == [f"{side}.key", f"{side}.crt"]
    assert len(show(folder)) == 3
    assert shakes_hands(folder, folder)


@pytest.mark.parametrize("side", ["server", "client"])
def test_the_old_ca_is_not_forgotten_while_a_certificate_is_of_it(side: Purpose, folder: Path) -> None:
    old = contents(folder)
    rotate_authority(folder)
    reissue(folder)
    for end in ("crt", "key"):
        (folder / f"{side}.{end}").write_bytes(old[f"{side}.{end}"])
    before = contents(folder)

    with pytest.raises(InstallError, match=rf"{side}.crt is not of the new CA, .*--reissue comes before"):
        forget_old_authority(folder)
    assert contents(folder) == before

    reissue(folder)
    forget_old_authority(folder)
    assert shakes_hands(folder, folder)


def test_a_certificate_with_its_chain_is_signed_by_what_comes_after_it(folder: Path, tmp_path: Path) -> None:
    create(tmp_path / "others", dns=[NAME], ips=[], days=365, ca_days=3650)
    leaf, key, between = (tmp_path / "others" / name for name in ("server.crt", "server.key", "ca.crt"))
    (folder / "server.crt").write_bytes(leaf.read_bytes() + between.read_bytes())
    (folder / "server.key").write_bytes(key.read_bytes())

    assert secret_data(folder, "server")["tls.crt"].count(b"BEGIN CERTIFICATE") == 2


def test_a_wrong_key_of_the_ca_is_told_and_may_be_elsewhere(folder: Path) -> None:
    (folder / "ca.key").write_bytes((folder / "server.key").read_bytes())

    for look in (show, lambda folder: renew(folder, before_days=30)):
        with pytest.raises(InstallError, match=r"ca.key: it is not that of .*; move it away, .* three steps"):
            look(folder)
    (folder / "ca.key").unlink()

    assert len(show(folder)) == 3


def test_a_wrong_key_of_the_next_ca_signs_nothing(folder: Path) -> None:
    rotate_authority(folder)
    (folder / "next.key").write_bytes((folder / "server.key").read_bytes())
    before = contents(folder)

    with pytest.raises(InstallError, match=r"next.key: it is not that of .*; remove .*, and begin anew"):
        reissue(folder)
    assert contents(folder) == before


def test_a_secret_holds_certificates(folder: Path) -> None:
    for name in ("ca.crt", "server.crt"):
        (folder / name).write_text("hello")
        with pytest.raises(InstallError, match=rf"{name}: there is no certificate in it"):
            secret_data(folder, "server")


def test_what_is_there_and_cannot_be_read_is_not_called_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "server.crt").unlink()
    (folder / "server.crt").mkdir()
    with pytest.raises(InstallError, match=r"server.crt: Is a directory; want a file .* move away") as found:
        show(folder)
    assert "certs create" not in str(found.value)

    def closed(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", closed)
    with pytest.raises(InstallError, match=r"ca.crt: Permission denied; run this as its owner") as found:
        show(folder)
    assert "certs create" not in str(found.value)
