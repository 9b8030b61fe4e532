"""Makes, shows and renews a folder of certificates; each file is replaced atomically.

``ca.crt`` is what both sides trust: one certificate, or two while a new CA takes over, and the first is that
of ``ca.key``, which signs. The pairs are ``server.crt`` and ``.key``, ``client.crt`` and ``.key``.

kube-scheduler reads its CA file once, at its start. So a new CA is trusted first (`rotate_authority`), signs
then (`reissue`), and the old one is forgotten at last (`forget_old_authority`): nobody is turned away.
"""

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bayplan.install.certificates import (
    Facts,
    Pair,
    Purpose,
    fault_of_key,
    is_signed_by,
    issue,
    make_authority,
    read,
)
from bayplan.install.errors import InstallError

AUTHORITY_NAME = "bayplan-ca"
CLIENT_NAME = "kube-scheduler"
_PUBLIC, _PRIVATE = 0o644, 0o600
_PURPOSES: tuple[Purpose, ...] = ("server", "client")
_STEMS = ("ca", *_PURPOSES)
_NEXT = ("next.key", "next.crt")


@dataclass(frozen=True)
class Found:
    """One certificate of the folder."""

    file: str
    facts: Facts
    note: str = ""


def create(
    directory: Path,
    *,
    dns: Sequence[str],
    ips: Sequence[str],
    client: str = CLIENT_NAME,
    days: int,
    ca_days: int,
    force: bool = False,
) -> list[Path]:
    """Make a CA and both pairs; files that are there already stay, unless ``force`` is given."""
    if days > ca_days:
        raise InstallError(
            f"certificates of {days} days would outlive their CA of {ca_days}, and be refused from then on:"
            " give fewer --days, or more --ca-days"
        )
    authority = make_authority(AUTHORITY_NAME, days=ca_days)
    pairs = _made(authority, _PURPOSES, dns=dns, ips=ips, client=client, days=days)
    files = {**_pair("ca", authority), **pairs}
    there = [name for name in files if (directory / name).exists()]
    if there and not force:
        raise InstallError(
            f"{directory / there[0]} is there already: `bayplan certs renew {directory}` renews what is"
            " there; --keep-ca makes what is lost, by the same CA; --force makes everything anew, and whoever"
            " trusts the old CA trusts it no more"
        )
    written = _write(directory, files)
    # One that was to follow the old CA is nobody's next: `reissue` would sign with it.
    _remove_next(directory)
    return written


def create_lost(
    directory: Path,
    *,
    dns: Sequence[str],
    ips: Sequence[str],
    client: str = CLIENT_NAME,
    days: int,
    force: bool = False,
) -> list[Path]:
    """Make the pairs of which a file is lost, by the CA that is there; all of them with ``force``."""
    trusted, authority = _authority(directory)
    left = trusted[0].days_left(datetime.now(UTC))
    if left < 1:
        raise InstallError(
            f"the CA in {directory} ends on {trusted[0].ends:%Y-%m-%d}, and is good for nothing more:"
            " --force without --keep-ca makes everything anew"
        )
    if days > left:
        raise InstallError(
            f"certificates of {days} days would outlive their CA, which ends on {trusted[0].ends:%Y-%m-%d},"
            f" and be refused from then on: give --days {int(left)} or fewer"
        )
    lost = [each for each in _PURPOSES if force or not _complete(directory, each)]
    if not lost:
        raise InstallError(
            f"nothing is lost in {directory}: `bayplan certs renew {directory}` renews what is there; --force"
            " with --keep-ca makes both certificates anew, with the names that you give"
        )
    if (dns or ips) and "server" not in lost:
        raise InstallError(
            f"{directory / 'server.crt'} is there already, and stays: leave --dns and --ip away; --force"
            " makes both certificates anew, with the names that you give"
        )
    return _write(directory, _made(authority, lost, dns=dns, ips=ips, client=client, days=days))


def renew(directory: Path, *, before_days: float, now: datetime | None = None) -> list[Path]:
    """Reissue certificates that expire within ``before_days``, or whose key or CA does not fit."""
    now = now or datetime.now(UTC)
    trusted, authority = _authority(directory)
    if trusted[0].days_left(now) <= before_days:
        raise InstallError(_ends(directory, trusted[0]))
    wanted = [
        purpose
        for purpose in _PURPOSES
        if _leaf(directory, purpose).days_left(now) <= before_days
        or not _has_key(directory, purpose)
        or not _is_signed(directory, purpose)
    ]
    return _write(directory, _issued(directory, authority, wanted, now=now))


def rotate_authority(directory: Path, *, now: datetime | None = None) -> list[Path]:
    """Make the next CA, and have both trusted; certificates stay as they are until `reissue`.

    The key of the old one is not needed: this is also the way out when it is lost.
    """
    trusted = _trusted(directory)
    if _moving(directory):
        raise InstallError(
            f"{directory} has a next CA already: go on with --reissue, once both sides have read ca.crt"
        )
    following = make_authority(AUTHORITY_NAME, days=trusted[0].days, now=now)
    both = _content(directory / "ca.crt") + following.certificate
    return _write(directory, {**_pair("next", following), "ca.crt": both})


def reissue(directory: Path, *, now: datetime | None = None) -> list[Path]:
    """Issue both certificates anew, by the next CA where there is one; the old one is trusted yet."""
    old = _first(directory / "ca.crt")
    files: dict[str, bytes] = {}
    moving = _moving(directory)
    if not moving:
        _, authority = _authority(directory)
    else:
        # The key of the old one signs nothing more, and may be lost.
        authority = _refuse_other_key(directory, "next")
        files = {"ca.key": authority.key, "ca.crt": authority.certificate + old}
    written = _write(directory, {**files, **_issued(directory, authority, _PURPOSES, now=now)})
    if moving:
        _remove_next(directory)
    return written


def forget_old_authority(directory: Path) -> list[Path]:
    """Trust the newest CA alone: the end of a rotation."""
    trusted = _trusted(directory)
    if _moving(directory):
        raise InstallError(
            f"the certificates in {directory} are of the old CA yet: --reissue comes before --forget-old-ca"
        )
    if len(trusted) == 1:
        return []
    newest = _first(directory / "ca.crt")
    for purpose in _PURPOSES:
        if not is_signed_by(_content(directory / f"{purpose}.crt"), newest):
            raise InstallError(
                f"{directory / f'{purpose}.crt'} is not of the new CA, and would be refused:"
                " --reissue comes before --forget-old-ca"
            )
    return _write(directory, {"ca.crt": newest})


def show(directory: Path) -> list[Found]:
    """Every certificate of the folder; each has its key, but that of the CA may be kept elsewhere."""
    found = []
    for file in ("ca.crt", "server.crt", "client.crt"):
        for number, facts in enumerate(read(_content(directory / file), source=str(directory / file))):
            note = "trusted, does not sign" if file == "ca.crt" and number else ""
            found.append(Found(file, facts, note))
    for stem in _STEMS:
        if stem != "ca" or (directory / "ca.key").exists():
            _refuse_other_key(directory, stem)
    for purpose in _PURPOSES:
        _refuse_stranger(directory, purpose)
    return found


def secret_data(directory: Path, purpose: Purpose) -> Mapping[str, bytes]:
    """The files of one side as a Secret holds them."""
    pair = _refuse_other_key(directory, purpose)
    _refuse_stranger(directory, purpose)
    return {
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
        "ca.crt": _content(directory / "ca.crt"),
    }


def _refuse_other_key(directory: Path, stem: str) -> Pair:
    """A certificate and its key, or an error that names the file."""
    file, path = directory / f"{stem}.crt", directory / f"{stem}.key"
    pair = Pair(_content(file), _content(path))
    read(pair.certificate, source=str(file))
    if fault := fault_of_key(pair):
        # While a wrong key of the CA is there, nothing can be shown, and so nothing handed out.
        away = "move it away, and " if stem == "ca" else ""
        raise InstallError(f"{path}: {fault}; {away}{_way_back(path)}")
    return pair


def _refuse_stranger(directory: Path, purpose: Purpose) -> None:
    """A certificate of a CA that nobody trusts is an error that names the file."""
    if not _is_signed(directory, purpose):
        file, trusted = directory / f"{purpose}.crt", directory / "ca.crt"
        raise InstallError(
            f"{file} is of no CA in {trusted}: whoever trusts that refuses it;"
            f" `bayplan certs renew {directory}` makes it anew, by the CA that is there"
        )


def _is_signed(directory: Path, purpose: Purpose) -> bool:
    _trusted(directory)
    return is_signed_by(_content(directory / f"{purpose}.crt"), _content(directory / "ca.crt"))


def _moving(directory: Path) -> bool:
    """Whether a next CA waits to sign; true even if only one of its two files is there."""
    return any((directory / name).exists() for name in _NEXT)


def _remove_next(directory: Path) -> None:
    for name in _NEXT:
        (directory / name).unlink(missing_ok=True)


def _complete(directory: Path, purpose: Purpose) -> bool:
    return all((directory / f"{purpose}.{end}").exists() for end in ("crt", "key"))


def _has_key(directory: Path, purpose: Purpose) -> bool:
    path = directory / f"{purpose}.key"
    certificate = _content(directory / f"{purpose}.crt")
    return path.exists() and not fault_of_key(Pair(certificate, _content(path)))


def _leaf(directory: Path, purpose: Purpose) -> Facts:
    path = directory / f"{purpose}.crt"
    return read(_content(path), source=str(path))[0]


def _made(
    authority: Pair,
    purposes: Sequence[Purpose],
    *,
    dns: Sequence[str],
    ips: Sequence[str],
    client: str,
    days: int,
) -> dict[str, bytes]:
    """New pairs with the names that were given."""
    files: dict[str, bytes] = {}
    for purpose in purposes:
        if purpose == "client":
            pair = issue(authority, client, purpose=purpose, days=days)
        elif dns or ips:
            pair = issue(authority, (*dns, *ips)[0], purpose=purpose, days=days, dns=dns, ips=ips)
        else:
            raise InstallError("the server has no name: give --dns or --ip, as kube-scheduler calls it")
        files |= _pair(purpose, pair)
    return files


def _issued(
    directory: Path, authority: Pair, purposes: Sequence[Purpose], *, now: datetime | None
) -> dict[str, bytes]:
    """New pairs with the names and the lifetime of those that are there, but not outliving the CA."""
    now = now or datetime.now(UTC)
    ca = read(authority.certificate, source=str(directory / "ca.crt"))[0]
    left = int(ca.days_left(now))
    if purposes and left < 1:
        raise InstallError(_ends(directory, ca))
    files: dict[str, bytes] = {}
    for purpose in purposes:
        known = _leaf(directory, purpose)
        # One of less than a day would be renewed for ever, to nothing.
        days = min(max(known.days, 1), left)
        pair = issue(authority, known.name, purpose=purpose, days=days, dns=known.dns, ips=known.ips, now=now)
        files |= _pair(purpose, pair)
    return files


def _authority(directory: Path) -> tuple[list[Facts], Pair]:
    return _trusted(directory), _refuse_other_key(directory, "ca")


def _trusted(directory: Path) -> list[Facts]:
    path = directory / "ca.crt"
    return read(_content(path), source=str(path))


def _ends(directory: Path, authority: Facts) -> str:
    return f"the CA in {directory} ends on {authority.ends:%Y-%m-%d}: {_takes_over(directory)}"


def _takes_over(directory: Path) -> str:
    return (
        f"a new one takes over in three steps, `bayplan certs renew {directory}` with --rotate-ca, --reissue"
        " and --forget-old-ca"
    )


def _first(path: Path) -> bytes:
    """The first certificate of a file."""
    end = b"-----END CERTIFICATE-----\n"
    return _content(path).partition(end)[0] + end


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InstallError(f"{path}: {error.strerror or error}; {_way_out(path, error)}") from error


def _way_out(path: Path, error: OSError) -> str:
    """What helps against a file that cannot be read."""
    if isinstance(error, PermissionError):
        return "run this as its owner: keys are readable by their owner alone"
    if not isinstance(error, FileNotFoundError):
        return "want a file that can be read: put it back, or move away what is in its place"
    return _way_back(path)


def _way_back(path: Path) -> str:
    """How to get a file that is lost, or one with something else in it."""
    directory = path.parent
    if not any((directory / f"{stem}.{end}").exists() for stem in _STEMS for end in ("crt", "key")):
        return f"`bayplan certs create --out {directory} --dns NAME` makes a CA and both certificates"
    anew = (
        f"`bayplan certs create --out {directory} --dns NAME --force` makes everything anew, and whoever"
        " trusts the old CA trusts it no more"
    )
    # A new CA needs the names of both certificates, which are in them.
    named = all((directory / f"{purpose}.crt").exists() for purpose in _PURPOSES)
    takes_over = _takes_over(directory) if named else anew
    begin = (
        f"remove what there is of next.key and next.crt in {directory}, and begin anew:"
        f" `bayplan certs renew {directory} --rotate-ca`"
    )
    return {
        "ca.crt": f"put it back, the Secrets of both sides hold it, too; or {anew}",
        "ca.key": f"put the right one back from where you keep it; or {takes_over}",
        "next.crt": begin,
        "next.key": begin,
        "server.crt": f"`bayplan certs create --out {directory} --keep-ca --dns NAME` makes it anew, by the"
        " same CA; give every --dns and --ip that kube-scheduler calls the server by",
        "client.crt": f"`bayplan certs create --out {directory} --keep-ca --client {CLIENT_NAME}` makes it"
        " anew, by the same CA; give the name that the caller had",
    }.get(path.name, f"`bayplan certs renew {directory}` makes it anew, with its certificate")


def _pair(stem: str, pair: Pair) -> dict[str, bytes]:
    return {f"{stem}.key": pair.key, f"{stem}.crt": pair.certificate}


def _write(directory: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write all beside their places first: what cannot be written leaves everything as it was."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.ExitStack() as cleaning:
            ready = [(_beside(directory, name, files[name], cleaning), directory / name) for name in files]
            for temporary, path in ready:
                temporary.replace(path)
            cleaning.pop_all()
    except OSError as error:
        raise InstallError(f"{directory}: {error.strerror or error}") from error
    return [path for _, path in ready]


def _beside(directory: Path, name: str, content: bytes, cleaning: contextlib.ExitStack) -> Path:
    handle, text = tempfile.mkstemp(prefix=f".{name}.", dir=directory)
    temporary = Path(text)
    cleaning.callback(temporary.unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), _PRIVATE if name.endswith(".key") else _PUBLIC)
        os.fsync(file.fileno())
    return temporary
