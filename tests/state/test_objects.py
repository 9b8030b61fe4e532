"""Objects beside nodes and pods: what changed is another one, what did not is shared."""

import msgspec

from bayplan.kube.workloads import Namespace, Service
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
