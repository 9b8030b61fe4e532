"""Checks pods and pod templates: which scheduler places them, and whether that one depends on them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bayplan.doctor.finding import Finding, Page, Put, Remove, Repair
from bayplan.doctor.scheduler_file import DEFAULT_SCHEDULER, Entry, SchedulerFile
from bayplan.doctor.traps_of_clusters import HEN_AND_EGG, SCHEDULER_NAME_ANNOTATION
from bayplan.kube.yaml import Path

ANNOTATION = "scheduler.alpha.kubernetes.io/name"
_TEMPLATE: dict[str, Path] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
_NAME_LABELS = ("app.kubernetes.io/name", "app", "name", "component")


def check_workload(page: Page, schedulers: Sequence[SchedulerFile]) -> Iterator[Finding]:
    """Check a pod or a template: the old annotation, and a pod whose scheduler waits for that pod."""
    base = pod_path(page.data)
    yield from _annotation(page, base)
    yield from _hen_and_egg(page, base, schedulers)


def pod_path(data: Mapping[str, Any]) -> Path:
    """Where the pod is, in a pod or in what makes pods."""
    return _TEMPLATE.get(str(data.get("kind")), ("spec", "template"))


def _annotation(page: Page, base: Path) -> Iterator[Finding]:
    # On a Deployment itself it means as little as in its template; people put it in both.
    for start in dict.fromkeys([base, ()]):
        path = (*start, "metadata", "annotations", ANNOTATION)
        wanted = value_at(page.data, path)
        if wanted is None:
            continue
        name = value_at(page.data, (*base, "spec", "schedulerName"))
        repairs: tuple[Repair, ...] = (Remove(path),)
        if name is None and isinstance(wanted, str) and wanted:
            spec = value_at(page.data, (*base, "spec"))
            first = next(iter(spec), "") if isinstance(spec, dict) else ""
            put = Put((*base, "spec", "schedulerName"), wanted, after=first)
            repairs = (put, Remove(path)) if first else ()
        what = f"{called(page.data)} asks for scheduler {wanted!r} in an annotation"
        yield page.found(SCHEDULER_NAME_ANNOTATION, path, what, repairs=repairs)


def _hen_and_egg(page: Page, base: Path, schedulers: Sequence[SchedulerFile]) -> Iterator[Finding]:
    template = value_at(page.data, base)
    spec = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(spec, dict) or not is_bayplan(template) or spec.get("nodeName"):
        return
    name = spec.get("schedulerName") or DEFAULT_SCHEDULER
    for scheduler in schedulers:
        waiting = waits_for(scheduler, str(name))
        # Beside its extender in one pod, a kube-scheduler calls loopback, and another one places the pod.
        if waiting is not None:
            at = (*base, "spec", "schedulerName") if "schedulerName" in spec else (*base, "spec")
            what = f"{called(page.data)} is placed by {name!r}, which waits for {waiting.name}"
            yield page.found(HEN_AND_EGG, at, what)


def waits_for(scheduler: SchedulerFile, scheduler_name: str) -> Entry | None:
    """The extender without which a kube-scheduler places no pod of that scheduler name."""
    if scheduler_name not in scheduler.scheduler_names:
        return None
    return next((entry for entry in scheduler.entries if entry.holds_up_every_pod), None)


def is_bayplan(template: Mapping[str, Any]) -> bool:
    """Whether a pod, or a template of pods, is our server: by its labels or by what it runs."""
    labels = value_at(template, ("metadata", "labels"))
    if isinstance(labels, dict) and any(labels.get(key) == "bayplan" for key in _NAME_LABELS):
        return True
    containers = value_at(template, ("spec", "containers"))
    for container in containers if isinstance(containers, list) else ():
        if not isinstance(container, dict):
            continue
        words = [*_list(container.get("command")), *_list(container.get("args"))]
        image = str(container.get("image") or "").rpartition("/")[2].partition(":")[0].partition("@")[0]
        if image == "bayplan" or ("bayplan" in " ".join(map(str, words[:4])) and "serve" in words):
            return True
    return False


def schedules(pod: Mapping[str, Any]) -> bool:
    """Whether a pod of ours runs ``bayplan schedule``, and not a server that kube-scheduler asks."""
    containers = value_at(pod, ("spec", "containers"))
    return any(
        "schedule" in (*_list(container.get("command")), *_list(container.get("args")))
        for container in _list(containers)
        if isinstance(container, dict)
    )


def called(data: Mapping[str, Any]) -> str:
    """``Deployment web``."""
    name = value_at(data, ("metadata", "name"))
    return f"{data.get('kind') or 'Pod'} {name}" if isinstance(name, str) else str(data.get("kind") or "Pod")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def value_at(data: Any, path: Path) -> Any:
    """What is there; ``None`` where nothing is."""
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data
