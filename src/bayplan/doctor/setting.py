"""What a file is examined against: a version of Kubernetes, our configuration, the time, the cluster."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bayplan.doctor.ours import Ours

_VERSION = re.compile(r"v?1\.(\d{1,3})(?:\.(\d{1,4}))?(?:[-+].*)?\+?")


@dataclass(frozen=True)
class Version:
    """``1.29.9``; without a last number, the newest of its minor."""

    minor: int
    patch: int | None = None

    @classmethod
    def read(cls, text: str) -> "Version":
        """From ``1.36``, ``v1.36.4`` or ``v1.31.5-eks-1``; `ValueError` for anything else."""
        found = _VERSION.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} is no version of Kubernetes, such as 1.36 or v1.36.4")
        return cls(int(found[1]), int(found[2]) if found[2] else None)

    def __str__(self) -> str:
        return f"1.{self.minor}" + ("" if self.patch is None else f".{self.patch}")


@dataclass(frozen=True)
class Setting:
    """Everything besides the file itself."""

    version: Version = Version(36)
    ours: Ours | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    nodes: int | None = None
    """How many nodes the cluster has, where that is known."""
    advertised: frozenset[str] | None = None
    """The resources that some node has to give, where that is known."""
    certificates: Mapping[Path, datetime | None] = field(default_factory=dict)
    """When the certificates end of the files that could be read; ``None`` where there is none in it."""
    missing: frozenset[Path] = frozenset()
    """Files that kube-scheduler is told to read, and that are not in their folder, which is here."""
    version_from: str = ""
    """Which file the version was taken from, where it is that of an image."""
