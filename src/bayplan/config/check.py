"""Everything that can be said about policies and a configuration without serving them."""

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
    """The policies that were found, and what is wrong with them."""

    policies: list[Policy]
    problems: list[str]
    tried_on: str = "0, 1 and 3 nodes, for a plain pod"
    """What the hooks were dry-run on, for people."""
    hints: list[str] = field(default_factory=list)
    """What is right, and could be better."""
    not_run: list[str] = field(default_factory=list)
    """Hooks that nobody called."""
    in_part: bool = False
    """Whether some lines of hooks were not run."""

    @property
    def done(self) -> str:
        """What was done, for people: not more than is true."""
        if not self.not_run and not self.in_part:
            return f"every hook ran on {self.tried_on}"
        left = ["not all of their lines (see the hints)"] if self.in_part else []
        left += [f"not {', '.join(self.not_run)}"] if self.not_run else []
        return f"hooks ran on {self.tried_on}; {', and '.join(left)}"


_REFUSING: tuple[Kind, ...] = ("filter", "prefer")
_NAME_SOME = "name a file, such as policy.py, or `policies:` in a --config file"


def load_checked(files: Sequence[str], flags: Flags) -> tuple[Loaded, list[str]]:
    """The policies and what their dry run found; `ConfigError` for what can never work."""
    loaded = load_all(files, flags)
    return loaded, dry_run(loaded, where=f"{flags.config}: " if flags.config else "")


def dry_run(loaded: Loaded, *, where: str = "") -> list[str]:
    """What a dry run of the policies found; `ConfigError` for what can never work."""
    refuse(loaded, where=where)
    pods_known = loaded.config.cluster.knows_pods
    problems = rehearse(loaded.policies, pods_known=pods_known)
    if not pods_known:
        refuse_hopeless(problems, lambda: rehearse(loaded.policies, pods_known=True))
    return problems + faults(loaded.policies)


def refuse(loaded: Loaded, *, where: str = "") -> None:
    """`ConfigError` for what can never work, whatever the hooks do."""
    if not loaded.policies:
        how = "list some under `policies:`, as `- use: policy.py`, or name a file" if where else _NAME_SOME
        raise ConfigError(f"{where}no policies: {how}")
    if loaded.config.cluster.source != "snapshot":
        _refuse_blind(loaded.policies, where)
    if loaded.config.cluster.nodes_only:
        _refuse_without_pods(loaded, where)


def refuse_hopeless(failures: Sequence[str], where_pods_are_known: Callable[[], list[str]]) -> None:
    """`ConfigError` for what fails only for want of pods: it would fail for every pod, so better here."""
    hopeless = set(failures) - set(where_pods_are_known()) if failures else ()
    if hopeless:
        raise ConfigError("\n".join(sorted(hopeless)))


def hints(
    policies: Sequence[Policy], refusals: Refusals | None = None, *, cluster: Snapshot | None = None
) -> list[str]:
    """What could be better about policies that are right as they are, and said so in the dry run."""
    silent = [hook for policy in policies for kind in _REFUSING for hook in policy.of_kind(kind)]
    silent = [hook for hook in silent if not returns_something(hook.function)]
    found = [f"{hook.title}: never refuses a node; is a `return` missing?" for hook in silent]
    found += refusals.hints if refusals is not None else []
    # Whoever has to think about what he says is not to be told how to say it faster.
    other = {id(hook) for hook in (*silent, *(refusals.refusing_all if refusals is not None else ()))}
    unmade = [hook.title for hook in promises_unmade(policies, cluster=cluster) if id(hook) not in other]
    return [*found, _UNMADE.format(hooks=", ".join(unmade))] if unmade else found


def faults(policies: Sequence[Policy]) -> list[str]:
    """What is wrong with policies whatever nodes there are."""
    return _orders(policies) + _mute(policies)


_UNMADE = (
    "{hooks}: as far as a dry run shows, what is said about a node depends on that node alone. If so, promise"
    ' it with reads="node": pods are then answered without asking again, about twice as fast'
)


def _orders(policies: Sequence[Policy]) -> list[str]:
    """What is wrong where two policies say who is next; an extender does not ask them."""
    try:
        one_order([policy for policy in policies if not policy.shadow])
    except PolicyError as error:
        return [str(error)]
    return []


def _mute(policies: Sequence[Policy]) -> list[str]:
    """Scores that never say anything: their ``return`` was forgotten."""
    scores = [hook for policy in policies for hook in policy.of_kind("score")]
    return [
        f"{hook.title}: never returns a number; put `return` before what it works out"
        for hook in scores
        if not returns_something(hook.function)
    ]


def _refuse_without_pods(loaded: Loaded, where: str) -> None:
    """What is done to pods needs pods in view."""
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
    """An extender watches nodes and pods: a policy about volumes would refuse every pod that has one."""
    modules = {DEFAULT_PROFILE[name]: name for name in ABOUT_OTHER_OBJECTS}
    found = {modules[home] for p in policies for h in p.hooks if (home := h.function.__module__) in modules}
    if found:
        raise ConfigError(
            f"{where}{', '.join(sorted(found))}: these look at volumes or images, which an extender does not"
            " watch, and kube-scheduler has judged them before it asks; take them out"
        )
