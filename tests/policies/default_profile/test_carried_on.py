"""What is known of volumes and attachments is carried on, event by event: the same as worked out anew."""

import random
from typing import Any

import msgspec
import numpy as np

from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.policies.default_profile import volume_offers
from bayplan.policies.default_profile.attachments import NO_ATTACHMENTS, Attachments
from bayplan.policies.default_profile.reach import Places
from bayplan.policies.default_profile.volume_offers import Offer, Offers, volume_affinity
from bayplan.snapshot.objects import Objects, ObjectsOfKind
from bayplan.state.objects import ObjectStore
from bayplan.testing import make_cluster, make_node
from tests.parity.volumes import HOSTNAME, ZONE, Json, attachment, volume

CLASSES = ("waits", "other")
NODES = [make_node(name, labels={HOSTNAME: name, ZONE: zone}) for name, zone in (("n0", "a"), ("n1", "b"))]


def put(store: ObjectStore, *manifests: Json) -> None:
    for one in manifests:
        store.put(one["kind"], msgspec.convert(one, OBJECT_KINDS[one["kind"]].part))


def drop(store: ObjectStore, manifest: Json) -> None:
    kind = manifest["kind"]
    store.drop(kind, msgspec.convert(manifest, OBJECT_KINDS[kind].part))


def a_volume(dice: random.Random) -> Json:
    where: dict[str, Any] = dice.choice([{}, {HOSTNAME: [f"n{dice.randrange(4)}"]}, {ZONE: ["a", "b"]}])
    made = volume(
        f"v{dice.randrange(12)}",
        size=dice.choice(["1Gi", "2Gi", "5Gi"]),
        storage_class=dice.choice(CLASSES),
        modes=dice.choice([["ReadWriteOnce"], ["ReadOnlyMany"]]),
        claim=dice.choice(["", "", "one", "two"]),
        phase=dice.choice(["Available", "Released"]),
        within=where,
    )
    if dice.random() < 0.1:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def told(offer: Offer) -> dict[str, Any]:
    """Everything that a claim can learn from an offer."""
    rows, numbers = offer.places.pairs(make_cluster(NODES).nodes)
    reached: dict[int, set[int]] = {}
    for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
        reached.setdefault(number, set()).add(row)
    return {
        "free": [each.name for each in offer.free],
        "sizes": offer.sizes.tolist(),
        "forms": [offer.forms[number] for number in offer.form_of.tolist()],
        "reached": [reached.get(number, set()) for number in offer.place_of.tolist()],
        "promised": {key: {each.name for each in those} for key, those in offer.promised.items()},
    }


def test_offers_carried_on_are_those_worked_out_anew() -> None:
    dice = random.Random(7)
    store = ObjectStore()
    carried = Offers(ObjectsOfKind())
    for step in range(400):
        for _ in range(dice.choice([1, 1, 1, 5])):
            (drop if dice.random() < 0.2 else put)(store, a_volume(dice))
        volumes = store.freeze().of_kind("PersistentVolume")
        carried = carried.followed_by(volumes)
        for name in CLASSES:
            assert told(carried.of(name)) == told(Offers(volumes).of(name)), f"step {step}"


def test_a_class_that_did_not_change_is_shared_and_nobody_elses_offer_is_touched() -> None:
    store = ObjectStore()
    put(store, volume("a"), volume("b", storage_class="other"))
    before = Offers(store.freeze().of_kind("PersistentVolume"))
    waits, other = before.of("waits"), before.of("other")
    put(store, volume("c", within={HOSTNAME: ["n1"]}))

    after = before.followed_by(store.freeze().of_kind("PersistentVolume"))

    assert after.of("other") is other
    assert [each.name for each in after.of("waits").free] == ["a", "c"]
    assert before.of("waits") is waits
    assert ([each.name for each in waits.free], len(waits.places)) == (["a"], 1)
    assert after.followed_by(store.freeze().of_kind("PersistentVolume")) is after


def test_many_changes_at_once_are_worked_out_anew() -> None:
    store = ObjectStore()
    put(store, volume("a"))
    before = Offers(store.freeze().of_kind("PersistentVolume"))
    before.of("waits")
    put(store, *(volume(f"v{number:03}") for number in range(volume_offers._FEW + 1)))

    after = before.followed_by(store.freeze().of_kind("PersistentVolume"))

    assert len(after.of("waits").free) == volume_offers._FEW + 2


def test_a_place_more_is_found_where_it_is_and_the_others_where_they_were() -> None:
    affinities = [
        volume_affinity(msgspec.convert(one, OBJECT_KINDS["PersistentVolume"].part))  # type: ignore[arg-type]
        for one in (
            volume("a", within={HOSTNAME: ["n0"]}),
            volume("b", within={HOSTNAME: ["n1"]}),
            volume("c"),
        )
    ]
    nodes = make_cluster(NODES).nodes
    one = Places(affinities[:1])
    one.pairs(nodes)

    three = one.also(affinities[1]).also(affinities[2])

    assert [array.tolist() for array in one.pairs(nodes)] == [[0], [0]]
    rows, numbers = three.pairs(nodes)
    assert sorted(zip(rows.tolist(), numbers.tolist(), strict=True)) == [(0, 0), (0, 2), (1, 1), (1, 2)]
    assert len(three) == 3


def an_attachment(dice: random.Random) -> Json:
    name = f"a{dice.randrange(10)}"
    return attachment(name, node=f"n{dice.randrange(3)}", volume=f"v{dice.randrange(6)}")


def test_attachments_carried_on_are_those_worked_out_anew() -> None:
    dice = random.Random(11)
    store = ObjectStore()
    carried: Attachments = NO_ATTACHMENTS
    for step in range(400):
        manifest = an_attachment(dice) if dice.random() < 0.5 else volume(f"v{dice.randrange(6)}")
        if manifest["kind"] == "PersistentVolume":
            manifest["spec"]["csi"]["volumeHandle"] = dice.choice(["x", "y"])
        (drop if dice.random() < 0.3 else put)(store, manifest)
        objects = store.freeze()
        carried = carried.followed_by(objects)
        anew = NO_ATTACHMENTS.followed_by(unrelated(objects))
        there = {node: those for node, those in carried.on_node.items() if those}
        assert there == {node: those for node, those in anew.on_node.items() if those}, f"step {step}"


def unrelated(objects: Objects) -> Objects:
    """The same objects, and nobody knows what they were before."""
    return Objects({kind: ObjectsOfKind(those) for kind, those in objects.by_kind.items()})


def test_an_event_that_changes_nothing_of_what_is_attached_changes_nothing() -> None:
    store = ObjectStore()
    put(store, volume("a"), volume("b"), attachment("one", node="n0", volume="a"))
    before = NO_ATTACHMENTS.followed_by(store.freeze())
    put(store, volume("a", claim="data"), volume("b", claim="other"), volume("c"))

    after = before.followed_by(store.freeze())

    assert after.on_node is before.on_node
    assert after.followed_by(store.freeze()) is after
    assert np.all([len(those) == 1 for those in after.on_node.values()])
