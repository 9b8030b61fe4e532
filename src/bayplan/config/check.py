"""Checks policies and a configuration without serving them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bayplan.authoring.hooks import Kind, PolicyError
from bayplan.authoring.registry import Policy
from bayplan.authoring.returns import returns_something
from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.load import ConfigError
from bayplan.config.refusals import Refusals
from bayplan.config.rehearse import promises_unmade, rehearse
from bayplan.engine.commit import commits
from bayplan.engine.entering import one_order
from bayplan.policies.default_profile import ABOUT_OTHER_OBJECTS, DEFAULT_PROFILE
from bayplan.snapshot.cluster import Snapshot


@dataclass(frozen=True)
class Report:
    """The policies that were found, and their problems."""

    policies: list[Policy]
    problems: list[str]
    tried_on: str = "0, 1 and 3 nodes, for a plain pod"
    """What the dry run used, in words."""
    hints: list[str] = field(default_factory=list)
    """Suggestions about policies that are right."""
    not_run: list[str] = field(default_factory=list)
    """Hooks that were not called."""
    in_part: bool = False
    """Whether some lines of hooks were not run."""

    @property
    def done(self) -> str:
        """What was checked, in words."""
        if not self.not_run and not self.in_part:
            return f"every hook ran on {self.tried_on}"
        left = ["not all of their lines (see the hints)"] if self.in_part else []
        left += [f"not {', '.join(self.not_run)}"] if self.not_run else []
        return f"hooks ran on {self.tried_on}; {', and '.join(left)}"


_REFUSING: tuple[Kind, ...] = ("filter", "prefer")
_NAME_SOME = "name a file, such as policy.py, or `policies:` in a --config file"


def load_checked(files: Sequence[str], flags: Flags) -> tuple[Loaded, list[str]]:
    """The policies and the problems of their dry run; raises `ConfigError` for what can never work."""
    loaded = load_all(files, flags)
    return loaded, dry_run(loaded, where=f"{flags.config}: " if flags.config else "")


def dry_run(loaded: Loaded, *, where: str = "") -> list[str]:
    """The problems of a dry run of the policies; raises `ConfigError` for what can never work."""
    refuse(loaded, where=where)
    pods_known = loaded.config.cluster.knows_pods
    problems = rehearse(loaded.policies, pods_known=pods_known)
    if not pods_known:
        refuse_hopeless(problems, lambda: rehearse(loaded.policies, pods_known=True))
    return problems + faults(loaded.policies)


def refuse(loaded: Loaded, *, where: str = "") -> None:
    """Raise `ConfigError` for what can never work, whatever the hooks do."""
    if not loaded.policies:
        how = "list some under `policies:`, as `- use: policy.py`, or name a file" if where else _NAME_SOME
        raise ConfigError(f"{where}no policies: {how}")
    if loaded.config.cluster.source != "snapshot":
        _refuse_blind(loaded.policies, where)
    if loaded.config.cluster.nodes_only:
        _refuse_without_pods(loaded, where)


def refuse_hopeless(failures: Sequence[str], where_pods_are_known: Callable[[], list[str]]) -> None:
    """Raise `ConfigError` for what fails only because pods are unknown: it would fail for every pod."""
    hopeless = set(failures) - set(where_pods_are_known()) if failures else ()
    if hopeless:
        raise ConfigError("\n".join(sorted(hopeless)))


def hints(
    policies: Sequence[Policy], refusals: Refusals | None = None, *, cluster: Snapshot | None = None
) -> list[str]:
    """Suggestions about policies that are right, from their dry run."""
    silent = [hook for policy in policies for kind in _REFUSING for hook in policy.of_kind(kind)]
    silent = [hook for hook in silent if not returns_something(hook.function)]
    found = [f"{hook.title}: never refuses a node; is a `return` missing?" for hook in silent]
    found += refusals.hints if refusals is not None else []
    # A hook that already has a suggestion about its verdicts gets none about speed.
    other = {id(hook) for hook in (*silent, *(refusals.refusing_all if refusals is not None else ()))}
    unmade = [hook.title for hook in promises_unmade(policies, cluster=cluster) if id(hook) not in other]
    return [*found, _UNMADE.format(hooks=", ".join(unmade))] if unmade else found


def faults(policies: Sequence[Policy]) -> list[str]:
    """The problems of policies that do not depend on nodes."""
    return _orders(policies) + _mute(policies)


_UNMADE = (
    "{hooks}: as far as a dry run shows, what is said about a node depends on that node alone. If so, promise"
    ' it with reads="node": it is then called when a node changes, not for every pod'
)


def _orders(policies: Sequence[Policy]) -> list[str]:
    """The problem of two policies with an ``order`` hook; an extender does not call them."""
    try:
        one_order([policy for policy in policies if not policy.shadow])
    except PolicyError as error:
        return [str(error)]
    return []


def _mute(policies: Sequence[Policy]) -> list[str]:
    """Scores that never return anything: their ``return`` was forgotten."""
    scores = [hook for policy in policies for hook in policy.of_kind("score")]
    return [
        f"{hook.title}: never returns a number; put `return` before what it works out"
        for hook in scores
        if not returns_something(hook.function)
    ]


def _refuse_without_pods(loaded: Loaded, where: str) -> None:
    """Raise `ConfigError` for settings and hooks that need pods in view; called with ``nodesOnly``."""
    found = []
    if commits(loaded.policies):
        found.append("policies that check or hand out at bind")
    if loaded.config.cluster.nudge.enabled:
        found.append("cluster.nudge")
    if loaded.config.extender.lease.use == "always":
        found.append("extender.lease, which is for binds")
    if found:
        raise ConfigError(f"{where}cluster.nodesOnly, and {' and '.join(found)}: take one of them away")


def _refuse_blind(policies: Sequence[Policy], where: str) -> None:
    """Raise `ConfigError` for policies about volumes or images in an extender, which does not watch them."""
    modules = {DEFAULT_PROFILE[name]: name for name in ABOUT_OTHER_OBJECTS}
    found = {modules[home] for p in policies for h in p.hooks if (home := h.function.__module__) in modules}
    if found:
        raise ConfigError(
            f"{where}{', '.join(sorted(found))}: these look at volumes or images, which an extender does not"
            " watch, and kube-scheduler has judged them before it asks; take them out"
        )
