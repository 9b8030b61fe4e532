"""Gangs: pods that are placed all together or not at all, declared by a hook or by the pods' labels."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, overload

from bayplan.authoring.hooks import F, decorate
from bayplan.authoring.raised import encodable
from bayplan.kube.duration import Duration
from bayplan.kube.pod import Pod
from bayplan.kube.yaml import suggest
from bayplan.snapshot.columns import LABELS, Label

GANG = "bayplan.dev/gang"
SIZE, TIMEOUT, WITHIN = f"{GANG}-size", f"{GANG}-timeout", f"{GANG}-within"
KEYS = (GANG, SIZE, TIMEOUT, WITHIN)
TIMEOUT_SECONDS = 60.0
# Tenants choose the timeout: a shorter one would only cost the scheduler work, since no gang is bound so
# soon.
SHORTEST_TIMEOUT_SECONDS = 1.0
_WHOLE_NUMBER = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True)
class Gang:
    """Pods of one namespace that are placed together: ``Gang("job", size=8, within=Label("rack"))``."""

    name: str
    """Pods of a namespace with the same name are one gang."""
    size: int = field(kw_only=True)
    """How many pods are placed together; later pods of the gang join them one by one."""
    within: Label | str | None = field(default=None, kw_only=True)
    """Put all on nodes with one value of this label: a `Label`, its key, or a short name such as ``zone``."""
    timeout_seconds: float = field(default=TIMEOUT_SECONDS, kw_only=True)
    """How long it may take until all pods exist, and from then until all are bound; 1 or more."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"a Gang needs a name, such as that of the job; got {self.name!r}")
        at = f"Gang {self.name!r}"
        if encodable(self.name) != self.name:
            # It is told in events and conditions, and both are JSON.
            raise ValueError(f"{at}: half a surrogate pair cannot be written")
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise ValueError(f"{at}: size is how many pods it has, 1 or more; got {self.size!r}")
        if not _long_enough(self.timeout_seconds):
            raise ValueError(
                f"{at}: timeout_seconds must be a number, 1 or more; got {self.timeout_seconds!r}"
            )
        object.__setattr__(self, "within", _label(self.within, at))

    @property
    def domain(self) -> Label | None:
        """The column of ``within``; ``None`` if the nodes may be anywhere."""
        return self.within if isinstance(self.within, Label) else None


@overload
def gang(function: F, /) -> F: ...
@overload
def gang() -> Callable[[F], F]: ...
def gang(function: F | None = None, /) -> F | Callable[[F], F]:
    """Which `Gang` the pod belongs to, or ``None``: the pods of a gang are placed all together or not at all.

    ::

        @bayplan.gang
        def ranks(pod):
            if job := pod.labels.get("job"):
                return bayplan.Gang(job, size=8, within=bayplan.Label("rack"))

    Only ``bayplan schedule`` calls it: kube-scheduler asks an extender about one pod after another.
    """
    return decorate(function, "gang")


def may_be_in_gang(pod: Pod) -> bool:
    """Whether the pod has any label or annotation about a gang, right or wrong."""
    return any(key.startswith(GANG) for key in (*pod.labels, *pod.annotations))


def gang_by_labels(pod: Pod) -> Gang | None:
    """The gang in the pod's labels and annotations; raises `ValueError` if they are wrong.

    A label takes precedence over an annotation of the same key, since selectors find labels.
    """
    said = {
        key: text
        for texts in (pod.annotations, pod.labels)
        for key, text in texts.items()
        if key.startswith(GANG)
    }
    if not said:
        return None
    for key in said:
        if key not in KEYS:
            raise ValueError(f"{key}: Bayplan knows no such label{suggest(key, KEYS)}")
    if not said.get(GANG):
        key = next(iter(said))
        raise ValueError(f"{key} without {GANG}: say the name of the gang there")
    return Gang(said[GANG], size=_size(said), within=said.get(WITHIN) or None, timeout_seconds=_timeout(said))


def _size(said: Mapping[str, str]) -> int:
    text = said.get(SIZE)
    if text is None:
        raise ValueError(f"{GANG} without {SIZE}: say there how many pods the gang has")
    if not _WHOLE_NUMBER.fullmatch(text) or int(text) < 1:
        raise ValueError(f"{SIZE}: want how many pods the gang has, 1 or more; got {text!r}")
    return int(text)


def _timeout(said: Mapping[str, str]) -> float:
    text = said.get(TIMEOUT)
    if text is None:
        return TIMEOUT_SECONDS
    try:
        seconds = Duration(text).seconds
    except ValueError as error:
        raise ValueError(f"{TIMEOUT}: {error}") from None
    if not _long_enough(seconds):
        raise ValueError(f"{TIMEOUT}: want 1s or more; got {text!r}")
    return seconds


def _label(within: Any, at: str) -> Label | None:
    if within is None:
        return None
    if isinstance(within, str) and within.strip():
        return LABELS.get(within) or Label(within)
    if isinstance(within, Label) and within.type is str:
        return within
    raise ValueError(f"{at}: within is a label of text, such as Label('rack'), or its key; got {within!r}")


def _long_enough(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= SHORTEST_TIMEOUT_SECONDS
