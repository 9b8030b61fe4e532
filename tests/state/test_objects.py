"""Objects beside nodes and pods: what changed is another one, what did not is shared."""

import msgspec
import pytest

from bayplan.kube.volumes import PersistentVolume
from bayplan.kube.workloads import Namespace, Service
from bayplan.snapshot.objects import ObjectsOfKind
from bayplan.state.cache import Cache
from bayplan.state.objects import KindStore, ObjectStore


def service(name: str, app: str = "a") -> Service:
    body = {"metadata": {"name": name, "namespace": "web"}, "spec": {"selector": {"app": app}}}
    return msgspec.convert(body, Service)


def namespace(name: str) -> Namespace:
    return msgspec.convert({"metadata": {"name": name, "labels": {"team": name}}}, Namespace)


def test_what_is_frozen_does_not_change() -> None:
    store = ObjectStore()
    store.put("Service", service("one"))
    before = store.freeze()
    store.put("Service", service("two"))
    store.drop("Service", service("one"))

    assert (list(before.of_kind("Service")), list(store.freeze().of_kind("Service"))) == (
        ["web/one"],
        ["web/two"],
    )


def test_nothing_happened_is_the_same_object_and_another_kind_is_shared() -> None:
    store = ObjectStore()
    store.replace("Service", [service("one")])
    store.put("Namespace", namespace("web"))
    before = store.freeze()
    assert store.freeze() is before

    store.put("Namespace", namespace("db"))

    after = store.freeze()
    assert after is not before
    assert after.of_kind("Service") is before.of_kind("Service")
    assert after.namespace_labels == {"web": {"team": "web"}, "db": {"team": "db"}}


def test_objects_are_found_by_namespace() -> None:
    store = ObjectStore()
    store.replace("Service", [service("one"), service("two")])

    found = store.freeze().in_namespace("Service", "web")

    assert [one.name for one in found] == ["one", "two"]
    assert store.freeze().in_namespace("Service", "db") == ()


def test_the_cluster_is_another_one_when_an_object_is() -> None:
    cache, told = Cache(), []
    watched = KindStore(cache.objects, "Service", lambda: told.append("news"))
    before = cache.snapshot()
    watched.put(service("one"))

    after = cache.snapshot()

    assert (len(before.objects.of_kind("Service")), len(after.objects.of_kind("Service"))) == (0, 1)
    assert cache.snapshot() is after
    watched.drop(service("one"))
    watched.replace([])
    assert told == ["news"] * 3


def volume(name: str, *, version: int, claim: str = "") -> PersistentVolume:
    spec = {"claimRef": {"namespace": "default", "name": claim}} if claim else {}
    body = {"metadata": {"name": name, "resourceVersion": str(version)}, "spec": spec}
    return msgspec.convert(body, PersistentVolume)


def claim_of(store: ObjectStore, name: str = "disk") -> str | None:
    shown: PersistentVolume | None = store.freeze().volumes.get(name)
    return None if shown is None else (shown.spec.claim_ref.name if shown.spec.claim_ref else "")


class TestWhatIsAssumed:
    def store(self) -> ObjectStore:
        store = ObjectStore()
        store.replace("PersistentVolume", [volume("disk", version=5), volume("other", version=6)])
        store.assume("PersistentVolume", volume("disk", version=5, claim="mine"))
        return store

    def test_is_seen_by_everybody_and_the_watch_is_still_known(self) -> None:
        store = self.store()

        assert claim_of(store) == "mine"
        assert store.told("PersistentVolume", "disk") == volume("disk", version=5)
        assert store.told("PersistentVolume", "other") == volume("other", version=6)
        assert store.assumed_count == 1

    def test_stands_against_the_same_version_and_older_ones(self) -> None:
        store = self.store()
        store.put("PersistentVolume", volume("disk", version=5))
        store.replace("PersistentVolume", [volume("disk", version=4)])

        assert claim_of(store) == "mine"
        assert store.told("PersistentVolume", "disk") == volume("disk", version=4)

    @pytest.mark.parametrize("listed", [True, False], ids=["in a list", "by an event"])
    def test_ends_when_the_watch_tells_something_newer(self, listed: bool) -> None:
        store = self.store()
        newer = volume("disk", version=7, claim="theirs")
        if listed:
            store.replace("PersistentVolume", [newer])
        else:
            store.put("PersistentVolume", newer)

        assert claim_of(store) == "theirs"
        assert store.told("PersistentVolume", "disk") is newer
        assert store.assumed_count == 0

    def test_ends_when_the_watch_tells_just_that(self) -> None:
        store = self.store()
        store.assume("PersistentVolume", volume("disk", version=7, claim="mine"))
        store.put("PersistentVolume", volume("disk", version=6))
        assert claim_of(store) == "mine", "what was written is newer than what the watch says"
        store.put("PersistentVolume", volume("disk", version=7, claim="mine"))

        assert store.assumed_count == 0

    @pytest.mark.parametrize("listed", [True, False], ids=["in a list", "by an event"])
    def test_ends_with_its_object(self, listed: bool) -> None:
        store = self.store()
        if listed:
            store.replace("PersistentVolume", [])
        else:
            store.drop("PersistentVolume", volume("disk", version=7))

        assert claim_of(store) is None
        assert store.told("PersistentVolume", "disk") is None
        store.assume("PersistentVolume", volume("disk", version=5, claim="mine"))
        assert claim_of(store) is None, "nothing is assumed of what is not there"

    def test_is_taken_back_by_whoever_assumed_it(self) -> None:
        store = self.store()
        mine = volume("disk", version=5, claim="mine")
        store.assume("PersistentVolume", mine)
        later = volume("disk", version=5, claim="theirs")
        store.assume("PersistentVolume", later)

        store.forget("PersistentVolume", mine)
        assert claim_of(store) == "theirs"
        store.forget("PersistentVolume", later)
        assert claim_of(store) == ""

    def test_is_nothing_against_what_the_watch_has_told_already(self) -> None:
        store = self.store()
        store.put("PersistentVolume", volume("disk", version=9))
        store.assume("PersistentVolume", volume("disk", version=8, claim="mine"))

        assert claim_of(store) == ""


class TestWhatChangedSince:
    def test_is_what_came_went_and_is_different(self) -> None:
        store = ObjectStore()
        store.replace("PersistentVolume", [volume(name, version=1) for name in ("a", "b", "c")])
        first = store.freeze().of_kind("PersistentVolume")
        store.put("PersistentVolume", volume("a", version=2))
        second = store.freeze().of_kind("PersistentVolume")
        store.drop("PersistentVolume", volume("b", version=2))
        store.put("PersistentVolume", volume("d", version=3))
        third = store.freeze().of_kind("PersistentVolume")

        assert first.changed_since(first) == set()
        assert second.changed_since(first) == {"a"}
        assert third.changed_since(first) == {"a", "b", "d"}
        assert third.changed_since(second) == {"b", "d"}

    def test_is_unknown_of_a_later_one_of_others_and_of_long_ago(self) -> None:
        store = ObjectStore()
        store.put("PersistentVolume", volume("a", version=1))
        first = store.freeze().of_kind("PersistentVolume")
        for version in range(2, 70):
            store.put("PersistentVolume", volume("a", version=version))
            last = store.freeze().of_kind("PersistentVolume")
        assert last.changed_since(first) is None
        assert first.changed_since(last) is None
        assert last.changed_since(ObjectsOfKind()) is None

        store.replace("PersistentVolume", [volume("a", version=70)])
        assert store.freeze().of_kind("PersistentVolume").changed_since(last) is None


def test_a_listener_hears_of_objects_one_by_one_and_of_whole_kinds() -> None:
    store, heard = ObjectStore(), []
    store.listeners.append(lambda kind, one: heard.append((kind, one.name if one else None)))
    store.replace("Service", [])
    store.put("Service", service("one"))
    store.drop("Service", service("one"))

    assert heard == [("Service", None), ("Service", "one"), ("Service", "one")]
