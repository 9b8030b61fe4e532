"""How long one call of a hook may take, and where a dry run was longer: there, it would fail for each pod."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bayplan.authoring.registry import Hook
from bayplan.config.v1 import BayplanConfiguration, ExtenderSection, SchedulerSection
from bayplan.engine.guard import Attempt, Failure
from bayplan.kube.duration import Duration

_ASKED_BY_A_SCHEDULER = ("gang", "gate", "order")


@dataclass(frozen=True)
class TimeLimit:
    """A setting, and how long it is."""

    setting: str
    seconds: float


LimitOf = Callable[[Hook], TimeLimit]


def time_limits(config: BayplanConfiguration) -> LimitOf:
    """The limit of each hook, by who asks it: the extender, or the scheduler where only that is set up."""
    extender = _limit("extender.limits.policyTimeout", config.extender.limits.policy_timeout)
    scheduler = _limit("scheduler.policyTimeout", config.scheduler.policy_timeout)
    schedules = config.extender == ExtenderSection() and config.scheduler != SchedulerSection()

    def limit_of(hook: Hook) -> TimeLimit:
        return scheduler if schedules or hook.spec.kind in _ASKED_BY_A_SCHEDULER else extender

    return limit_of


def _limit(setting: str, duration: Duration) -> TimeLimit:
    return TimeLimit(setting, duration.seconds)


@dataclass
class TimedAttempt(Attempt):
    """An attempt that notes the calls for which a server would not have waited."""

    limit_of: LimitOf | None = None
    late: dict[str, tuple[Hook, float]] = field(default_factory=dict)
    """Hooks that took too long, by title, and how many seconds."""

    def note(self, hook: Hook, failure: Failure | None, *, began: float, seconds: float | None) -> None:
        """Write down one call."""
        super().note(hook, failure, began=began, seconds=seconds)
        if self.limit_of and seconds is not None and seconds > self.limit_of(hook).seconds:
            self.late[hook.title] = (hook, seconds)

    def told(self, nodes: int) -> list[str]:
        """What to say of the hooks that took too long, asked about so many nodes."""
        return [self._told(hook, seconds, nodes) for hook, seconds in self.late.values()]

    def _told(self, hook: Hook, seconds: float, nodes: int) -> str:
        assert self.limit_of is not None
        limit = self.limit_of(hook)
        where = f"on {nodes} node{'' if nodes == 1 else 's'}"
        # Two digits, more where the limit would look the same.
        took = f"{seconds:.2g}" if float(f"{seconds:.2g}") > limit.seconds else f"{seconds:.4g}"
        return (
            f"{hook.title}: took {took} s {where}, {limit.setting} is {limit.seconds:g} s:"
            f" it would fail for {f'pods like {self.pod}' if self.pod else 'each pod'}"
        )
