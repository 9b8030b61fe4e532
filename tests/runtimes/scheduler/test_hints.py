"""Whatever happens that lets a refused pod in, the pod is woken by it: none waits for the five minutes."""

import copy
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from bayplan import Profile
from bayplan.engine.choose import choose
from bayplan.kube.kinds import EVERY_KIND
from bayplan.kube.node import NodeWithImages
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.by_news import helps
from bayplan.runtimes.scheduler.hints import helped_by
from bayplan.runtimes.simulator.admitted import defaulted
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.objects import Objects
from bayplan.state import news
from tests.parity.generator import every_case
from tests.parity.world import HOLD, Json

POLICIES = Profile.default().policies
NOW = datetime(2026, 1, 1, tzinfo=UTC)
GONE = "2026-01-01T00:00:00Z"
SEED, CASES, TRIES = 9, 240, 40
# What it says about itself never changes; that it comes and goes is looked at.
FIXED = ("PersistentVolume", "PersistentVolumeClaim")


def part(manifest: Json) -> Any:
    """What Bayplan sees of an object."""
    manifest = copy.deepcopy(manifest)
    metadata, kind = manifest["metadata"], manifest["kind"]
    if HOLD in metadata.get("finalizers", ()):
        metadata["deletionTimestamp"] = GONE
    metadata["labels"] = {
        key: text for key, text in (metadata.get("labels") or {}).items() if text is not None
    }
    metadata["uid"] = f"{metadata.get('namespace')}/{metadata['name']}"
    kinds = {"Node": NodeWithImages, "Pod": Pod}
    return msgspec.convert(manifest, kinds[kind] if kind in kinds else EVERY_KIND[kind].part)


def cluster_of(manifests: Sequence[Json], known: dict[int, Any]) -> Snapshot:
    """``known`` are the parts of objects that were here before."""
    found = [(one["kind"], known.get(id(one)) or part(one)) for one in manifests]
    nodes = [one for kind, one in found if kind == "Node"]
    pods = [one for kind, one in found if kind == "Pod" and not one.finished]
    return Snapshot.build(nodes, pods, Objects.of((kind, one) for kind, one in found if kind in EVERY_KIND))


def changed(draw: random.Random, one: Json, pool: Sequence[Json]) -> Json | None:
    """The object as it may be a moment later; ``None`` where it is gone."""
    other = copy.deepcopy(one)
    like = copy.deepcopy(draw.choice([each for each in pool if each["kind"] == one["kind"]]))
    if one["kind"] == "Pod":
        change = draw.choice(("gone", "ended", "leaving", "labels", "smaller"))
        other["status"] = {"phase": "Succeeded" if change == "ended" else "Running"}
        if change == "leaving":
            other["metadata"]["deletionTimestamp"] = GONE
        elif change == "labels":
            other["metadata"]["labels"] = like["metadata"]["labels"]
        elif change == "smaller":
            for container in other["spec"]["containers"]:
                container["resources"] = {}
        return None if change == "gone" else other
    if one["kind"] == "Node":
        key, section = draw.choice((("labels", "metadata"), ("taints", "spec"), ("allocatable", "status")))
        roomy = {**one["status"]["allocatable"], "cpu": "64", "memory": "512Gi", "pods": "110"}
        other[section][key] = {"labels": like["metadata"]["labels"], "taints": [], "allocatable": roomy}[key]
        other["spec"]["unschedulable"] = False
        return other
    if one["kind"] in FIXED or draw.random() < 0.3:
        return None
    return {**like, "metadata": {**like["metadata"], "name": one["metadata"]["name"]}}


def happenings(
    draw: random.Random, pod: Pod, world: Sequence[Json], pool: Sequence[Json]
) -> Iterator[tuple[Any, Any]]:
    """An object before and after; ``None`` where it was, or is, not there."""
    there = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in world}
    wanted = [source.claim_name for one in pod.volumes if (source := one.persistent_volume_claim)]
    claims = [name for name in wanted if ("PersistentVolumeClaim", pod.namespace, name) not in there]
    for _ in range(TRIES):
        if draw.random() < 0.3:
            new = copy.deepcopy(draw.choice(pool))
            new["metadata"]["name"] += "-new"
            if new["kind"] == "PersistentVolumeClaim" and claims:
                new["metadata"] |= {"name": draw.choice(claims), "namespace": pod.namespace}
            yield None, new
        elif world:
            one = draw.choice(world)
            yield one, changed(draw, one, pool)


def told(before: Json | None, now: Json | None) -> frozenset[str]:
    """The news that a watch makes of it."""
    kind = (before or now or {})["kind"]
    was, is_now = (None if one is None else part(one) for one in (before, now))
    if kind == "Pod":
        return news.of_pod(was, is_now)
    return news.of_node(was, is_now) if kind == "Node" else frozenset({kind})


def test_what_lets_a_refused_pod_in_is_news_for_it() -> None:
    cases = list(every_case(SEED, CASES))
    known = {"Node", "Pod", *EVERY_KIND}
    pool = [one for case in cases[::20] for one in case.world.objects if one["kind"] in known]
    helped: Counter[str] = Counter()
    for case in cases:
        draw = random.Random(case.number)
        pod = defaulted(part({**case.pod, "kind": "Pod"}))
        world = [one for one in case.world.objects if one["kind"] in known]
        parts = {id(one): part(one) for one in world}
        refused = choose(POLICIES, pod, cluster_of(world, parts), now=NOW)
        if pod.gated or refused.found:
            continue
        for before, now in happenings(draw, pod, world, pool):
            after = [one for one in world if one is not before] + ([now] if now is not None else [])
            if choose(POLICIES, pod, cluster_of(after, parts), now=NOW).found:
                helped[(before or now)["kind"]] += 1
                assert helps(told(before, now), helped_by(refused)), (
                    case.number,
                    refused.message,
                    before,
                    now,
                )

    assert helped["Node"] > 20, "the test has something to look at"
    assert helped["Pod"] > 5
    assert helped["PersistentVolumeClaim"] > 0
