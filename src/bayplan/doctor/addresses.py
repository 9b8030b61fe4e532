"""Checks the URLs and verbs that kube-scheduler calls."""

from collections.abc import Iterator
from ipaddress import ip_address

from bayplan.doctor.extender_entry import VERBS, may_be_ours
from bayplan.doctor.finding import Finding, Put, Repair
from bayplan.doctor.ours import Ours
from bayplan.doctor.scheduler_file import Entry, SchedulerFile
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_entries import BAD_URL, PASSWORD_IN_URL, VERB, VERB_SLASH
from bayplan.doctor.traps_of_tls import ADDRESS_MISMATCH, PATH_MISMATCH, SCHEME_MISMATCH


def check_addresses(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    """The URL and the verbs of each extender, alone and against our configuration."""
    for entry in file.entries:
        yield from _url(file, entry)
        ours = setting.ours if setting.ours and may_be_ours(file, entry, setting) else None
        yield from _names(
            file, entry, certain=ours is not None, foreign=setting.ours is not None and not ours
        )
        if ours is not None and entry.url is not None:
            yield from _against(file, entry, ours)


def _url(file: SchedulerFile, entry: Entry) -> Iterator[Finding]:
    text = entry.text("urlPrefix")
    if entry.url is None:
        said = f"{_hidden(text)!r} is no http:// or https:// address" if text else "urlPrefix is missing"
        repairs: tuple[Repair, ...] = ()
        if text and "://" not in text and not text.startswith("/") and "@" not in text:
            scheme = "https" if entry.flag("enableHTTPS") else "http"
            repairs = (Put(entry.at("urlPrefix"), f"{scheme}://{text}"),)
        yield file.found(BAD_URL, entry.at("urlPrefix"), said, repairs=repairs)
    elif "@" in entry.url.netloc:
        bare = entry.url._replace(netloc=entry.url.netloc.rpartition("@")[2]).geturl()
        what = f"urlPrefix has a user and a password before {entry.url.hostname}"
        yield file.found(
            PASSWORD_IN_URL, entry.at("urlPrefix"), what, repairs=(Put(entry.at("urlPrefix"), bare),)
        )


def _hidden(text: str) -> str:
    """The text without a possible password."""
    return text if "@" not in text else f"...@{text.rpartition('@')[2]}"


def _names(file: SchedulerFile, entry: Entry, *, certain: bool, foreign: bool) -> Iterator[Finding]:
    """``certain`` where the extender is Bayplan for sure, ``foreign`` where it surely is not."""
    for key, right in VERBS.items():
        verb = entry.text(key)
        bare = verb.strip("/")
        if bare != verb:
            what = f"{key} is {verb!r}: the URL would end in {'/' + verb!r}"
            yield file.found(VERB_SLASH, entry.at(key), what, repairs=(Put(entry.at(key), bare),))
        if not bare or bare == right or foreign:
            continue
        mixed_up = bare in VERBS.values()
        yield file.found(
            VERB,
            entry.at(key),
            f"{key} is {verb!r}; Bayplan answers under {right!r}",
            severity="error" if certain or mixed_up else "note",
            repairs=(Put(entry.at(key), right),) if certain or mixed_up else (),
        )


def _against(file: SchedulerFile, entry: Entry, ours: Ours) -> Iterator[Finding]:
    url = entry.url
    assert url is not None, "the caller has looked"
    at = entry.at("urlPrefix")
    if (url.scheme == "https") != ours.tls:
        right = "https" if ours.tls else "http"
        what = f"{entry.name} is called, and Bayplan speaks {right.upper()} (extender.tls)"
        put = Put(at, url._replace(scheme=right).geturl())
        yield file.found(SCHEME_MISMATCH, at, what, repairs=(put,))
    if url.path.strip("/") != ours.path:
        what = f"the path is {url.path or '/'}, and extender.path is /{ours.path}"
        path = f"/{ours.path}" if ours.path else ""
        put = Put(at, url._replace(path=path).geturl())
        yield file.found(PATH_MISMATCH, at, what, repairs=(put,))
    port = ours.listen[1]
    listening = f"Bayplan listens on {ours.listen_text}"
    if not port:
        return
    if entry.local and entry.port != port:
        put = Put(at, url._replace(netloc=f"{url.netloc.rpartition(':')[0] or url.netloc}:{port}").geturl())
        what = f"port {entry.port} is called, and {listening}"
        yield file.found(ADDRESS_MISMATCH, at, what, repairs=(put,) if url.port else ())
    elif not entry.local and ours.on_loopback:
        yield file.found(ADDRESS_MISMATCH, at, f"{url.hostname} is called, and {listening}")
    elif _of_another_family(url.hostname or "", ours.listen[0]):
        what = f"{url.hostname} is called, and {listening}: one is of IPv4, the other of IPv6"
        yield file.found(ADDRESS_MISMATCH, at, what)


def _of_another_family(called: str, listening: str) -> bool:
    """Whether both are IP addresses of different families, so that a call to one does not reach the other."""
    try:
        there, here = ip_address(called), ip_address(listening)
    except ValueError:
        return False
    # A server on every address of IPv6 listens on those of IPv4 too.
    return there.version != here.version and here != ip_address("::")
