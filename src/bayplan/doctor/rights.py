"""The rights that Bayplan needs of the API server, by the table of the installation, and those too many."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from bayplan.doctor.extender_entry import may_be_ours
from bayplan.doctor.ours import Ours
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.setting import Setting
from bayplan.engine.commit import commits
from bayplan.install import rights as install
from bayplan.install.names import Release
from bayplan.install.rights import rights_of


@dataclass(frozen=True)
class Right:
    """One verb on one resource, and what for."""

    verb: str
    resource: str
    purpose: str = ""
    group: str = ""
    subresource: str = ""
    name: str = ""
    """Of the one object that it is for; empty for all."""
    namespace: str = ""
    """Where it is needed, of what has a namespace; empty for the account's own."""

    def __str__(self) -> str:
        if (self.verb, self.resource) == ("*", "*"):
            return "do everything with every object (`*` on `*`)"
        full = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {full}{f'.{self.group}' if self.group not in ('', '*') else ''}"


@dataclass(frozen=True)
class Rights:
    """What one user may and may not, of what matters."""

    subject: str
    place: str
    missing: Sequence[Right] = ()
    wide: Sequence[Right] = ()
    bindings: Sequence[str] = ()
    """The ClusterRoleBindings that make it cluster-admin."""
    own: bool = False
    """It is the user of the kubeconfig, who need not be the one that Bayplan runs as."""


WIDE = (
    Right("*", "*", group="*"),
    Right("list", "secrets"),
)


def needed(schedulers: Sequence[SchedulerFile], setting: Setting, *, nodes_only: bool = False) -> list[Right]:
    """What the configurations ask of whoever runs a server of Bayplan.

    ``nodes_only``: the configuration in its ConfigMap says so, where no other is given.
    """
    mine = [entry for file in schedulers for entry in file.entries if may_be_ours(file, entry, setting)]
    binds = any(entry.text("bindVerb") for entry in mine)
    ours: Ours | None = setting.ours
    commit = ours is not None and commits(ours.policies)
    # Of several servers behind a Service one holds a Lease; beside each kube-scheduler nobody does.
    values = {
        "shape": "service" if commit else "control-plane",
        "verbs": {"bind": binds},
        "config": {
            "cluster": {
                "nodesOnly": ours.nodes_only if ours is not None else nodes_only,
                "nudge": {"enabled": ours is not None and ours.nudges},
            }
        },
    }
    lease = (ours.lease_name, ours.lease_namespace) if ours is not None else ("", "")
    return list(_singly(rights_of(Release(values, namespace="", minor=setting.version.minor)), lease))


def needed_to_schedule(setting: Setting) -> list[Right]:
    """What ``bayplan schedule`` asks of its account, but for its Lease, whose name is not known here."""
    values = {"shape": "standalone", "verbs": {"bind": False}, "config": {}}
    table = rights_of(Release(values, namespace="", minor=setting.version.minor))
    return list(_singly((line for line in table if not line.own), ("", "")))


def _singly(table: Iterable[install.Right], lease: tuple[str, str]) -> Iterator[Right]:
    """The lines of the table of rights, verb by verb. By name only what exists can be allowed."""
    for line in table:
        for path, verb in product(line.resources, line.verbs):
            resource, _, subresource = path.partition("/")
            name, namespace = lease if line.own else ("", "")
            known = name if verb != "create" else ""
            yield Right(verb, resource, line.why, line.group, subresource, known, namespace)
