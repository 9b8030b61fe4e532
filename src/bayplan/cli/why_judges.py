"""Who judges the pod of ``bayplan why -f``: Bayplan's own scheduler, or kube-scheduler with an extender."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayplan.config.flags import Loaded
    from bayplan.config.profile import Profile
    from bayplan.kube.pod import Pod
    from bayplan.runtimes.simulator.evaluate import Judges

_DEFAULT = "default"


def judges_for(pod: "Pod", loaded: "Loaded", *, profile: str | None) -> "Judges":
    """Who judges, as the configuration and the pod's ``schedulerName`` say.

    ``profile`` is that of kube-scheduler: ``default``, or a file; without it, its plugins are not asked.
    """
    from bayplan.config.flags import DEFAULT_SCHEDULER_NAME
    from bayplan.config.load import ConfigError
    from bayplan.config.v1 import ExtenderSection, SchedulerSection
    from bayplan.runtimes.scheduler.profiles import profiles_from
    from bayplan.runtimes.simulator.evaluate import Judges

    config, name = loaded.config, pod.scheduler_name
    if config.scheduler != SchedulerSection():
        ours = [entry.scheduler_name for entry in config.scheduler.profiles] or [DEFAULT_SCHEDULER_NAME]
        if name in ours and profile is not None:
            raise ConfigError(
                f"--profile is for pods that kube-scheduler places, and `bayplan schedule` places those of"
                f" {name}: their profile is in `scheduler.profiles`"
            )
        if name in ours:
            return Judges(profiles_from(loaded)[name], schedules=True)
        if profile is None and config.extender == ExtenderSection():
            raise ConfigError(
                f"the pod has schedulerName {name}, and `bayplan schedule` with this configuration places"
                f" those of {' and '.join(ours)}: write that into the pod's spec; or, for a kube-scheduler"
                f" that has Bayplan as an extender, give --profile {_DEFAULT}"
            )
    if profile is None:
        return Judges(loaded.policies)
    found = _profile(profile, name)
    notes = [
        f"plugin {plugin} of the profile is not known here, and was not asked" for plugin in found.left_out
    ]
    return Judges(loaded.policies, plugins=found.policies, notes=notes)


def _profile(said: str, scheduler_name: str) -> "Profile":
    from bayplan.config.load import ConfigError
    from bayplan.config.profile import Profile
    from bayplan.kube.unread import file_meant

    if said == _DEFAULT:
        return Profile.default()
    if not Path(said).exists():
        raise ConfigError(f"--profile {said}: no such file{file_meant(said, [_DEFAULT])}")
    return Profile.read(said, scheduler_name)
