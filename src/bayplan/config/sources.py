"""From the configuration, and from policies' own functions, to sources that can be asked."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from bayplan.authoring.editions import edition_of
from bayplan.authoring.registry import Policy
from bayplan.authoring.source import SourceHook
from bayplan.config.load import ConfigError, place
from bayplan.config.reads import check_reads
from bayplan.config.told import told
from bayplan.config.v1 import (
    AccessSection,
    BayplanConfiguration,
    FileSection,
    HttpSection,
    PrometheusSection,
    SourceEntry,
)
from bayplan.kube.pod import Pod
from bayplan.kube.yaml import Document
from bayplan.snapshot.bynode import PLAIN
from bayplan.state.sources.asker import Asked
from bayplan.state.sources.book import Declared
from bayplan.state.sources.document import FileDocument, Shape, WebDocument
from bayplan.state.sources.http import PLAIN_ACCESS, Access, SourceError, SourceHttp, check_url
from bayplan.state.sources.poller import Polled
from bayplan.state.sources.prometheus import Prometheus
from bayplan.state.sources.threads import AT_ONCE

_ONE_OF = ("prometheus", "http", "file")


class _Wrong(Exception):
    """An entry that cannot be used; ``at`` is the key to blame."""

    def __init__(self, text: str, *at: str) -> None:
        super().__init__(text)
        self.at = at


def declare(
    config: BayplanConfiguration, policies: Sequence[Policy], base: Path, *, document: Document | None = None
) -> list[Declared]:
    """Every source, each name once; `ConfigError` for a column of a source that there is not.

    Errors name the line where there is a ``document``.
    """
    found: dict[str, Declared] = {}
    fields: dict[str, set[str]] = {}
    for number, entry in enumerate(config.sources):
        path = ("sources", number)
        try:
            made = _configured(entry, base)
            _check_patience(made, config)
        except _Wrong as error:
            raise ConfigError(f"{_at(document, (*path, *error.at), entry.name)}: {error}") from error
        if entry.name in found:
            where = _at(document, (*path, "name"), entry.name)
            raise ConfigError(f"{where}: two sources are called {entry.name!r}; rename one of them")
        found[entry.name] = made
        if entry.prometheus is not None:
            fields[entry.name] = set(entry.prometheus.queries) or {PLAIN}
    for hook in _hooks(policies):
        if hook.name in found:
            raise ConfigError(
                f"{hook.spec.where}: two sources are called {hook.name!r}; rename one of them,"
                " or use its file only once"
            )
        found[hook.name] = _written(hook)
        try:
            _check_patience(found[hook.name], config)
        except _Wrong as error:
            raise ConfigError(f"{hook.spec.where} {hook.name}: {error}") from error
    check_reads(policies, {name: fields.get(name) for name in found}, document)
    return list(found.values())


def _configured(entry: SourceEntry, base: Path) -> Declared:
    given = [name for name in _ONE_OF if getattr(entry, name) is not None]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        raise _Wrong(f"give one of {', '.join(_ONE_OF)}; there is {said}")
    section = entry.prometheus or entry.http or entry.file
    assert section is not None
    if isinstance(section, AccessSection):
        try:
            check_url(section.url, allow_link_local=section.allow_link_local)
        except SourceError as error:
            raise _Wrong(str(error), given[0], "url") from error
    if entry.per == "pod":
        return _asked(entry, base)
    if entry.fallback:
        raise _Wrong("is for `per: pod`; elsewhere old values are missing values", "fallback")
    if entry.annotations:
        raise _Wrong("is for `per: pod`: nobody else is told of a pod", "annotations")
    if entry.max_age.seconds < entry.interval.seconds:
        raise _Wrong(
            f"{entry.max_age.text} is less than `interval`, {entry.interval.text}:"
            " values would be missing in between",
            "maxAge",
        )
    fetch, questions = _fetch(entry, base)
    access = _access(section, base, seconds=5.0)
    polled = Polled(
        entry.name,
        fetch,
        every_seconds=entry.interval.seconds,
        max_age_seconds=entry.max_age.seconds,
        match=section.match,
        settle_seconds=entry.settle.seconds if entry.settle else 0.0,
        timeout_seconds=access.timeout_seconds * questions,
        # Reading once more what hangs would hang as well, on a file system that is gone.
        threads=1 if entry.file is not None else AT_ONCE,
        # How often it is asked does not change what its values mean.
        definition=(section, _folder(section, base)),
    )
    return Declared(polled, access)


def _fetch(entry: SourceEntry, base: Path) -> tuple[Callable[[SourceHttp], Any], int]:
    """How to ask, and how many questions that is."""
    if (section := entry.prometheus) is not None:
        if bool(section.query) == bool(section.queries):
            raise _Wrong("give `query`, or `queries` by name", "prometheus")
        queries = {PLAIN: section.query} if section.query else section.queries
        return Prometheus(section.url, queries, section.node_label, section.match).fetch, len(queries)
    if entry.http is not None:
        return WebDocument(entry.http.url, Shape(entry.http.items, entry.http.key)).fetch, 1
    assert entry.file is not None
    return FileDocument(base / entry.file.path, Shape(entry.file.items, entry.file.key)).fetch, 1


def _asked(entry: SourceEntry, base: Path) -> Declared:
    section = entry.http
    if section is None:
        raise _Wrong("`per: pod` is for http alone: nobody else is told of the pod", "per")
    if section.match != "name":
        raise _Wrong("`per: pod` sends names of nodes: `match` must be name", "http", "match")
    shape = Shape(section.items, section.key)

    async def ask(http: SourceHttp, pod: Pod, names: Sequence[str]) -> Mapping[str, Any]:
        body = {"pod": told(pod, entry.annotations), "nodes": list(names)}
        return await shape.read(await http.json(section.url, body=body))

    access = _access(section, base, seconds=0.5)
    asked = Asked(
        entry.name,
        ask,
        timeout_seconds=access.timeout_seconds,
        keep_seconds=entry.keep.seconds,
        fallback=entry.fallback,
        definition=(section, _folder(section, base), entry.annotations),
    )
    return Declared(asked, access)


def _check_patience(declared: Declared, config: BayplanConfiguration) -> None:
    """Whoever is asked while kube-scheduler waits has less time than kube-scheduler."""
    limit = config.extender.limits.request_timeout
    if isinstance(declared.source, Asked) and declared.source.timeout_seconds >= limit.seconds:
        raise _Wrong(
            f"timeout of {declared.source.timeout_seconds:g} s while kube-scheduler waits;"
            f" want less than extender.limits.requestTimeout, {limit.text}"
        )


def _hooks(policies: Sequence[Policy]) -> Iterator[SourceHook]:
    """The functions that are sources; one that came with several policies of its file once."""
    seen: list[Any] = []
    for policy in policies:
        for hook in policy.sources:
            # Not by identity: with other arguments the same function is another source.
            same = (hook.function.__code__.co_filename, hook.spec, msgspec.to_builtins(hook.args))
            if same not in seen:
                seen.append(same)
                yield hook


def _written(hook: SourceHook) -> Declared:
    spec = hook.spec
    if spec.per == "pod":

        async def ask(http: SourceHttp, pod: Pod, names: Sequence[str]) -> Mapping[str, Any]:
            return await hook.call({"http": http, "pod": pod, "nodes": list(names)})

        asked = Asked(
            hook.name,
            ask,
            timeout_seconds=spec.timeout_seconds,
            keep_seconds=spec.keep_seconds,
            fallback=spec.fallback,
            definition=_definition(hook),
        )
        return Declared(asked, Access(timeout_seconds=spec.timeout_seconds))

    async def fetch(http: SourceHttp) -> Mapping[str, Any]:
        return await hook.call({"http": http})

    polled = Polled(
        hook.name,
        fetch,
        every_seconds=spec.every_seconds,
        max_age_seconds=spec.max_age_seconds,
        timeout_seconds=spec.timeout_seconds,
        definition=_definition(hook),
    )
    return Declared(polled, Access(timeout_seconds=spec.timeout_seconds))


def _definition(hook: SourceHook) -> object:
    """What a function's values hang on: its settings, and its file with those beside it that are imported."""
    code = hook.function.__code__
    own = Path(code.co_filename)
    edition = edition_of(hook.function.__module__)
    beside = (
        [file for file in edition.files() if file.resolve().is_relative_to(own.parent)] if edition else []
    )
    try:
        files = {str(file): sha256(file.read_bytes()).hexdigest() for file in beside or [own]}
    except OSError:
        return None
    return code, files, replace(hook.spec, where=""), msgspec.to_builtins(hook.args)


def _folder(section: PrometheusSection | HttpSection | FileSection, base: Path) -> Path | None:
    """What paths start from, where there are any: without, two files in two folders mean the same."""
    if isinstance(section, AccessSection) and not (section.bearer_token_file or section.ca_file):
        return None
    return base.resolve()


def _at(document: Document | None, path: tuple[str | int, ...], name: str) -> str:
    return place(document, path) if document is not None else f"source {name!r}"


def _access(section: PrometheusSection | HttpSection | FileSection, base: Path, *, seconds: float) -> Access:
    if not isinstance(section, AccessSection):
        return PLAIN_ACCESS
    return Access(
        timeout_seconds=section.timeout.seconds if section.timeout else seconds,
        max_bytes=section.max_bytes,
        headers=section.headers,
        bearer_token_file=base / section.bearer_token_file if section.bearer_token_file else None,
        ca_file=base / section.ca_file if section.ca_file else None,
        insecure_skip_verify=section.insecure_skip_verify,
        allow_link_local=section.allow_link_local,
    )
