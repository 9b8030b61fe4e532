"""A KubeSchedulerConfiguration as it is meant: keys of any case, values of the right type or none.

What kube-scheduler would refuse is told by other checks; here it must not hide the rest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import SplitResult, urlsplit

from bayplan.doctor.finding import Finding, Page, Repair, Severity, Trap
from bayplan.doctor.schema import CONFIGURATION, EXTENDER, MANAGED, PROFILE, TLS, Keys
from bayplan.kube.yaml import Path

LOOPBACK = ("localhost", "127.0.0.1", "::1")
DEFAULT_SCHEDULER = "default-scheduler"


class Part:
    """A mapping of the file, read by the right names whatever their case."""

    def __init__(self, data: Any, keys: Keys, path: Path) -> None:
        self.path = path
        self._data: dict[str, Any] = data if isinstance(data, dict) else {}
        right = {key.lower(): key for key in keys}
        # A key that is spelled right wins over one that is not.
        ordered = sorted(self._data, key=lambda key: key in keys)
        self._written = {right.get(key.lower(), key): key for key in ordered}

    def at(self, key: str = "") -> Path:
        """The path of a key, as it is written; of the mapping where it is not there."""
        return (*self.path, self._written[key]) if key in self._written else self.path

    def has(self, key: str) -> bool:
        """Whether the key is there with a value."""
        return self._value(key) is not None

    def raw(self, key: str) -> Any:
        """The value as it is."""
        return self._value(key)

    def text(self, key: str) -> str:
        """A text, or an empty one."""
        value = self._value(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        """Whether it is true; ``"true"`` is meant so too."""
        value = self._value(key)
        return value is True or (isinstance(value, str) and value.lower() == "true")

    def whole(self, key: str) -> int | None:
        """A whole number."""
        value = self._value(key)
        if isinstance(value, str) and value.isdecimal() and len(value) < 10:
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def parts(self, key: str, keys: Keys) -> list["Part"]:
        """The mappings of a list."""
        value = self._value(key)
        items = value if isinstance(value, list) else []
        return [Part(item, keys, (*self.at(key), number)) for number, item in enumerate(items)]

    def part(self, key: str, keys: Keys) -> "Part":
        """A mapping; an empty one where there is none."""
        return Part(self._value(key), keys, self.at(key))

    def _value(self, key: str) -> Any:
        return self._data.get(self._written.get(key, key))


class Entry(Part):
    """One extender."""

    def __init__(self, data: Any, number: int, path: Path) -> None:
        super().__init__(data, EXTENDER, path)
        self.place = number

    @cached_property
    def url(self) -> SplitResult | None:
        """The address; ``None`` where it is none."""
        try:
            url = urlsplit(self.text("urlPrefix"))
            url.port  # noqa: B018 - raises where it is no number
        except ValueError:
            return None
        return url if url.scheme in ("http", "https") and url.hostname else None

    @property
    def scheme(self) -> str:
        """``http``, ``https``, or nothing."""
        return self.url.scheme if self.url else ""

    @property
    def local(self) -> bool:
        """Whether it is on the machine that kube-scheduler runs on."""
        host = (self.url.hostname or "") if self.url else ""
        return host in LOOPBACK or host.startswith("127.")

    @property
    def port(self) -> int:
        """The port that is called."""
        return (self.url.port or (443 if self.scheme == "https" else 80)) if self.url else 0

    @cached_property
    def tls(self) -> Part:
        """``tlsConfig``."""
        return self.part("tlsConfig", TLS)

    @cached_property
    def managed(self) -> list[Part]:
        """``managedResources``."""
        return self.parts("managedResources", MANAGED)

    @property
    def has_ca(self) -> bool:
        """Whether the server's certificate is checked against a CA of the file."""
        return self.tls.has("caFile") or self.tls.has("caData")

    @property
    def holds_up_every_pod(self) -> bool:
        """Whether no pod is placed while it is down; errors of prioritize and preempt are survived."""
        needed = self.text("filterVerb") or self.text("bindVerb")
        return bool(needed) and not self.managed and not self.flag("ignorable")

    @property
    def name(self) -> str:
        """How people call it, without a password."""
        url = self.url
        return (
            f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}" if url else f"number {self.place + 1}"
        )


@dataclass(frozen=True)
class SchedulerFile:
    """A KubeSchedulerConfiguration, and where it stands."""

    page: Page

    @cached_property
    def top(self) -> Part:
        """The whole file."""
        return Part(self.page.data, CONFIGURATION, ())

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The extenders, in the order of the file."""
        raw = self.top.raw("extenders")
        start = self.top.at("extenders")
        items = raw if isinstance(raw, list) else []
        return tuple(Entry(item, number, (*start, number)) for number, item in enumerate(items))

    @cached_property
    def profiles(self) -> list[Part]:
        """The profiles that are written out."""
        return self.top.parts("profiles", PROFILE)

    @cached_property
    def scheduler_names(self) -> frozenset[str]:
        """Whose pods this kube-scheduler takes."""
        names = {profile.text("schedulerName") for profile in self.profiles} - {""}
        return frozenset(names or {DEFAULT_SCHEDULER})

    @property
    def api_version(self) -> str:
        """``kubescheduler.config.k8s.io/v1``."""
        return self.top.text("apiVersion")

    def found(
        self,
        trap: Trap,
        path: Path,
        what: str,
        *,
        severity: Severity | None = None,
        repairs: tuple[Repair, ...] = (),
    ) -> Finding:
        """A finding about a value of this file."""
        return self.page.found(trap, path, what, severity=severity, repairs=repairs)


def plugins_of(profile: Part, point: str, which: str) -> Iterator[tuple[Path, str]]:
    """The plugins that are enabled, or disabled, at a point: where, and their names, which may be empty."""
    plugins = profile.part("plugins", {})
    listed: Any = plugins.raw(point)
    listed = listed.get(which) if isinstance(listed, Mapping) else None
    for number, plugin in enumerate(listed if isinstance(listed, list) else []):
        name = plugin.get("name", "") if isinstance(plugin, Mapping) else 0
        if name is None or isinstance(name, str):
            yield (*plugins.path, point, which, number), name or ""
