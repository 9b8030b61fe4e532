"""The ledger: assumed before asked, taken back on a refusal, rolled forward when nobody knows."""

import asyncio
import time
from collections.abc import Callable

import pytest

from bayplan.client.bind import BindRefused
from bayplan.client.errors import ApiError, ConnectError
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.conditions import PodLabel
from bayplan.state import ledger as ledger_module
from bayplan.state.cache import Cache
from bayplan.state.ledger import Ledger
from bayplan.testing import make_node, make_pod

APP = PodLabel("app")
Reply = Callable[[], None]


class Api:
    """Stands in for the API server: replies by a script, then binds."""

    def __init__(self, *script: Exception | None) -> None:
        self.script = list(script)
        self.posts: list[str] = []
        self.bound: dict[str, str] = {}
        self.hold = asyncio.Event()
        self.hold.set()
        self.pods: dict[str, Pod] = {}
        self.unreadable: ConnectError | None = None

    async def request(self, method: str, path: str, *, body: dict[str, dict[str, str]], **_: object) -> bytes:
        node = body["target"]["name"]
        self.posts.append(node)
        await self.hold.wait()
        failure = self.script.pop(0) if self.script else None
        if failure is not None:
            raise failure
        self.bound[body["metadata"]["uid"]] = node
        return b"{}"

    async def pod(self, namespace: str, name: str, **_: object) -> Pod:
        if self.unreadable is not None:
            raise self.unreadable
        try:
            return self.pods[f"{namespace}/{name}"]
        except KeyError:
            raise ApiError(404, "not found", doing="reading") from None


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "_ROLL_FORWARD_SECONDS", (0.001, 0.002))
    monkeypatch.setattr("bayplan.client.bind._RETRY_SECONDS", ())


async def one_of_a_kind(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
    """At most one pod on a node, which gets a number."""
    await asyncio.sleep(0)
    taken = cluster.nodes.row(node)["pods.requested"]
    return ("there is one already", {}) if taken else ("", {"example.com/number": "1"})


def make_ledger(api: Api, cache: Cache) -> Ledger:
    return Ledger(cache, api, commit=one_of_a_kind, timeout_seconds=1.0)  # type: ignore[arg-type]


def make_cache(*pods: Pod) -> Cache:
    cache = Cache()
    for name in ("a", "b"):
        cache.put_node(make_node(name).object)
    for pod in pods:
        cache.put_pod(pod)
    return cache


def counts(cache: Cache) -> list[int]:
    values: list[int] = cache.snapshot().nodes.count().tolist()
    return values


async def bind(ledger: Ledger, pod: Pod, node: str) -> str:
    """What was wrong, or ``""``."""
    try:
        await ledger.bind(namespace=pod.namespace, name=pod.name, uid=pod.uid, node=node)
    except BindRefused as error:
        return str(error)
    return ""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.001)


async def test_a_bound_pod_counts_before_the_watch_tells() -> None:
    pod = make_pod("p")
    cache = make_cache(pod)

    assert await bind(make_ledger(Api(), cache), pod, "a") == ""

    assert counts(cache) == [1, 0]
    assert cache.assumed_count == 1


async def test_the_watch_makes_it_a_fact() -> None:
    pod = make_pod("p", uid="u")
    cache = make_cache(pod)
    await bind(make_ledger(Api(), cache), pod, "a")

    cache.put_pod(make_pod("p", uid="u"))
    assert counts(cache) == [1, 0], "an older event does not take it away"
    cache.put_pod(make_pod("p", uid="u", node="a"))

    assert counts(cache) == [1, 0]
    assert cache.assumed_count == 0


async def test_a_bind_that_was_answered_is_for_a_later_list_to_tell() -> None:
    pod = make_pod("p", uid="u")
    cache, api = make_cache(pod), Api()
    api.hold.clear()
    asked_at = time.monotonic()
    binding = asyncio.create_task(bind(make_ledger(api, cache), pod, "a"))
    await until(lambda: api.posts == ["a"])

    cache.end_assumptions(time.monotonic())
    assert cache.assumed_count == 1, "it may be bound in this moment"
    api.hold.set()
    await binding
    cache.end_assumptions(asked_at)
    assert cache.assumed_count == 1, "it was bound after that list was made"
    cache.end_assumptions(time.monotonic() + 1)
    assert cache.assumed_count == 0


async def test_of_two_that_want_one_place_the_first_gets_it() -> None:
    first, second = make_pod("first"), make_pod("second")
    cache, api = make_cache(first, second), Api()
    ledger = make_ledger(api, cache)
    api.hold.clear()

    one = asyncio.create_task(bind(ledger, first, "a"))
    await until(lambda: api.posts == ["a"])
    late = await bind(ledger, second, "a")
    api.hold.set()

    assert late == "there is one already"
    assert await one == ""
    assert api.posts == ["a"], "the second was refused before anybody was asked"
    assert counts(cache) == [1, 0]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(ApiError(404, "gone", doing="binding"), id="the pod is gone"),
        pytest.param(ApiError(403, "forbidden", doing="binding"), id="no right to bind"),
        pytest.param(ApiError(429, "slow down", doing="binding"), id="told to come back later"),
    ],
)
async def test_a_refusal_takes_the_assumption_back(refusal: ApiError) -> None:
    pod = make_pod("p")
    cache = make_cache(pod)

    assert await bind(make_ledger(Api(refusal), cache), pod, "a") != ""

    assert counts(cache) == [0, 0]
    assert cache.assumed_count == 0
    assert [waiting.name for waiting in cache.snapshot().pods] == ["p"]


async def test_an_unknown_outcome_is_rolled_forward_to_the_same_node() -> None:
    pod = make_pod("p")
    cache = make_cache(pod)
    lost = ConnectError("the reply was lost")
    api = Api(lost, lost, lost)
    ledger = make_ledger(api, cache)

    assert "unknown" in await bind(ledger, pod, "a")
    assert counts(cache) == [1, 0], "nobody else gets the place meanwhile"
    assert "may yet be bound to a" in await bind(ledger, pod, "b")
    assert cache.snapshot().unsettled == {pod.uid: "a"}
    await until(lambda: ledger.unsettled_count == 0)
    assert cache.snapshot().unsettled == {}

    assert api.bound == {pod.uid: "a"}
    assert set(api.posts) == {"a"}
    assert await bind(ledger, pod, "a") == ""
    assert counts(cache) == [1, 0]


@pytest.mark.parametrize("status", [401, 403, 429])
async def test_while_rolling_forward_a_closed_door_is_no_answer(status: int) -> None:
    """The try whose reply was lost may have come through the door before it was closed."""
    pod = make_pod("p")
    cache = make_cache(pod)
    closed = ApiError(status, "not now", doing="binding")
    api = Api(ConnectError("the reply was lost"), closed, closed, closed)
    ledger = make_ledger(api, cache)

    assert "unknown" in await bind(ledger, pod, "a")
    await until(lambda: len(api.posts) >= 4)
    assert counts(cache) == [1, 0], "nobody else gets the place meanwhile"
    await until(lambda: ledger.unsettled_count == 0)

    assert api.bound == {pod.uid: "a"}
    assert counts(cache) == [1, 0]


async def test_an_unknown_outcome_that_turns_out_to_be_a_no_frees_the_place() -> None:
    pod = make_pod("p")
    cache = make_cache(pod)
    api = Api(ConnectError("the reply was lost"), ApiError(404, "gone", doing="binding"))
    ledger = make_ledger(api, cache)

    await bind(ledger, pod, "a")
    await until(lambda: ledger.unsettled_count == 0)

    assert counts(cache) == [0, 0]


async def test_an_unbound_read_back_proves_nothing_while_a_try_may_be_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bayplan.client.bind._RETRY_SECONDS", (0.001,))
    pod = make_pod("p")
    cache = make_cache(pod)
    conflict = ApiError(409, "conflict", doing="binding")
    api = Api(ConnectError("frozen"), conflict)
    api.pods[pod.key] = pod
    ledger = make_ledger(api, cache)

    assert await bind(ledger, pod, "a") != ""
    assert ledger.unsettled_count == 1
    assert counts(cache) == [1, 0]
    await ledger.close()


@pytest.mark.parametrize(
    ("news", "refusal", "places"),
    [
        pytest.param(None, "is gone", [0, 0], id="it was deleted"),
        pytest.param(make_pod("p", uid="new"), "another one now", [0, 0], id="it was made anew"),
        pytest.param(make_pod("p", uid="old", node="b"), "already bound to b", [0, 1], id="others bound it"),
    ],
)
async def test_news_of_the_pod_while_policies_have_their_say_are_heeded(
    news: Pod | None, refusal: str, places: list[int]
) -> None:
    pod = make_pod("p", uid="old")
    cache, api = make_cache(pod), Api()

    async def news_come_in(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        await asyncio.sleep(0)
        cache.drop_pod(pod.key)
        if news is not None:
            cache.put_pod(news)
        return "", {}

    ledger = Ledger(cache, api, commit=news_come_in, timeout_seconds=1.0)  # type: ignore[arg-type]

    assert refusal in await bind(ledger, pod, "a")

    assert api.posts == []
    assert cache.assumed_count == 0
    assert counts(cache) == places
    assert cache.pod(pod.key) == news


async def test_asked_twice_at_once_it_is_bound_once() -> None:
    pod = make_pod("p")
    cache, api = make_cache(pod), Api()
    ledger = make_ledger(api, cache)

    said = await asyncio.gather(bind(ledger, pod, "a"), bind(ledger, pod, "a"))

    assert list(said) == ["", ""]

    assert api.posts == ["a"]
    assert counts(cache) == [1, 0]


async def test_a_third_caller_waits_for_the_second() -> None:
    """It would find the pod assumed on its node, and take that for bound."""
    pod = make_pod("p")
    no = ApiError(403, "forbidden", doing="binding")
    cache, api = make_cache(pod), Api(no, no, no)
    ledger = make_ledger(api, cache)
    api.hold.clear()

    first = asyncio.create_task(bind(ledger, pod, "a"))
    await until(lambda: len(api.posts) == 1)
    second = asyncio.create_task(bind(ledger, pod, "a"))
    await asyncio.sleep(0)
    api.hold.set()
    await first
    api.hold.clear()
    await until(lambda: len(api.posts) == 2)
    third = asyncio.create_task(bind(ledger, pod, "a"))
    await asyncio.sleep(0)
    api.hold.set()

    assert all([await second, await third])
    assert api.bound == {}
    assert counts(cache) == [0, 0]


async def test_what_waits_for_its_turn_for_too_long_is_not_sent_any_more() -> None:
    """kube-scheduler has given its place to another pod by then, and nobody would hear the answer."""
    first, second, third = (make_pod(name, uid=name) for name in ("first", "second", "third"))
    cache, api = make_cache(first, second, third), Api()
    slow, asked = asyncio.Event(), []

    async def thinks_long(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        asked.append(pod.name)
        await slow.wait()
        return "", {}

    ledger = Ledger(cache, api, commit=thinks_long, timeout_seconds=0.05)  # type: ignore[arg-type]
    binds = [asyncio.create_task(bind(ledger, pod, node)) for pod, node in ((first, "a"), (second, "b"))]
    await until(lambda: bool(asked))

    assert "it was not its turn within 0.05 s, and nothing was sent" in await binds[1]
    assert "it was not its turn" in await bind(ledger, first, "a"), "its own first call is still running"
    slow.set()
    assert "no time was left to send it" in await binds[0]

    assert (asked, api.posts) == (["first"], [])
    assert (cache.assumed_count, counts(cache)) == (0, [0, 0])
    assert await bind(ledger, third, "a") == ""


async def test_another_node_for_a_pod_that_is_bound_is_refused_by_name() -> None:
    pod = make_pod("p", node="b")

    assert "already bound to b" in await bind(make_ledger(Api(), make_cache(pod)), pod, "a")


@pytest.mark.parametrize(
    ("there", "said"),
    [
        pytest.param(make_pod("p", uid="u", node="a"), "", id="it is"),
        pytest.param(make_pod("p", uid="u"), "is bound to no node, in view to a", id="it never was"),
        pytest.param(make_pod("p", uid="u", node="b"), "is bound to b, in view to a", id="it is elsewhere"),
        pytest.param(make_pod("p", uid="v"), "is another one now", id="it is another one"),
        pytest.param(None, "404", id="it is gone"),
        pytest.param(ConnectError("no answer"), "", id="nobody can say"),
    ],
)
async def test_a_pod_that_is_bound_in_view_is_said_to_be_bound_if_the_api_server_says_so(
    there: Pod | ConnectError | None, said: str
) -> None:
    """Another etcd may have been restored: kube-scheduler would wait for ever for a pod that is not bound."""
    pod = make_pod("p", uid="u", node="a")
    api = Api()
    if isinstance(there, Pod):
        api.pods[pod.key] = there
    elif there is not None:
        api.unreadable = there

    answer = await bind(make_ledger(api, make_cache(pod)), pod, "a")

    assert said in answer if said else not answer
    assert api.posts == []


async def test_a_pod_that_the_view_does_not_know_yet_is_read() -> None:
    pod = make_pod("new")
    cache, api = make_cache(), Api()
    api.pods[pod.key] = pod

    assert await bind(make_ledger(api, cache), pod, "a") == ""
    assert counts(cache) == [1, 0]


async def test_a_pod_that_came_and_went_while_it_was_to_be_bound_does_not_wait_for_ever() -> None:
    """The watch has told all that it will ever tell of it: nobody would take it out of the view again."""
    pod = make_pod("brief", uid="b")
    cache, api = make_cache(), Api(ApiError(404, "gone", doing="binding"))
    api.pods[pod.key] = pod

    async def it_comes_and_goes(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        await asyncio.sleep(0)
        cache.put_pod(pod)
        cache.drop_pod(pod.key, pod.uid)
        return "", {}

    ledger = Ledger(cache, api, commit=it_comes_and_goes, timeout_seconds=1.0)  # type: ignore[arg-type]

    assert "gone" in await bind(ledger, pod, "a")

    assert api.posts == ["a"]
    assert (cache.pod_count, cache.assumed_count, counts(cache)) == (0, 0, [0, 0])


async def test_a_pod_made_anew_under_the_same_name_is_not_bound_for_the_old_one() -> None:
    new = make_pod("p", uid="new")
    cache, api = make_cache(new), Api()
    api.pods[new.key] = new

    assert "another one now" in await bind(make_ledger(api, cache), make_pod("p", uid="old"), "a")
    assert counts(cache) == [0, 0]


async def test_a_pod_that_is_deleted_takes_its_assumption_along() -> None:
    pod = make_pod("p")
    cache = make_cache(pod)
    await bind(make_ledger(Api(), cache), pod, "a")

    cache.drop_pod(pod.key)

    assert counts(cache) == [0, 0]
    assert cache.assumed_count == 0


class Lease:
    """Stands in for the Lease: ours until somebody says otherwise."""

    problem = ""

    def why_not(self) -> str:
        return self.problem


async def test_who_does_not_hold_the_lease_binds_nothing() -> None:
    pod, api, lease = make_pod("p", uid="u"), Api(), Lease()
    cache = make_cache(pod)
    ledger = Ledger(cache, api, commit=None, timeout_seconds=1, why_not=lease.why_not)  # type: ignore[arg-type]
    lease.problem = "another server binds"

    assert await bind(ledger, pod, "a") == "another server binds"

    assert api.posts == []
    assert cache.assumed_count == 0


async def test_a_lease_lost_during_the_last_word_stops_the_bind_and_frees_the_place() -> None:
    pod, api, lease, freed = make_pod("p", uid="u"), Api(), Lease(), []

    async def loses_it(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        lease.problem = "another server binds"
        return "", {}

    cache = make_cache(pod)
    ledger = Ledger(
        cache,
        api,  # type: ignore[arg-type]
        commit=loses_it,
        timeout_seconds=1,
        why_not=lease.why_not,
        on_freed=lambda: freed.append("a place"),
    )

    assert await bind(ledger, pod, "a") == "another server binds"

    assert api.posts == []
    assert cache.assumed_count == 0
    assert freed == ["a place"]


async def test_without_the_lease_an_unknown_outcome_is_left_to_the_watch() -> None:
    pod, api, lease = make_pod("p", uid="u"), Api(ConnectError("lost")), Lease()
    cache = make_cache(pod)
    asked: list[str] = []

    def why_not() -> str:
        asked.append(lease.problem)
        return lease.problem

    ledger = Ledger(cache, api, commit=None, timeout_seconds=1, why_not=why_not)  # type: ignore[arg-type]
    assert "unknown" in await bind(ledger, pod, "a")
    lease.problem = "another server binds"
    await until(lambda: asked.count("another server binds") > 3)
    assert (api.posts, ledger.unsettled_count) == (["a"], 1)

    cache.put_pod(make_pod("p", uid="u", node="a"))
    await until(lambda: not ledger.unsettled_count)

    assert api.posts == ["a"]
    assert cache.assumed_count == 0


async def test_a_cancelled_bind_may_have_landed_and_keeps_its_place() -> None:
    pod, api = make_pod("p", uid="u"), Api()
    cache = make_cache(pod)
    ledger = make_ledger(api, cache)
    api.hold.clear()
    asking = asyncio.create_task(bind(ledger, pod, "a"))
    await until(lambda: bool(api.posts))

    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)

    assert (ledger.unsettled_count, counts(cache)) == (1, [1, 0])
    api.hold.set()
    await until(lambda: not ledger.unsettled_count)
    assert api.bound == {"u": "a"}


async def test_a_bind_counts_as_sent_until_it_is_answered_or_in_doubt() -> None:
    api, pod = Api(ConnectError("the connection broke")), make_pod("p", uid="p")
    ledger = make_ledger(api, make_cache(pod))
    api.hold.clear()
    binding = asyncio.create_task(bind(ledger, pod, "a"))
    await until(lambda: api.posts == ["a"])
    assert (ledger.sending_count, ledger.unsettled_count) == (1, 0)

    api.hold.set()
    await binding
    assert ledger.sending_count + ledger.unsettled_count > 0, "there is no moment between the two"
    await until(lambda: ledger.sending_count + ledger.unsettled_count == 0)

    assert api.bound == {"p": "a"}


async def test_what_the_last_word_needs_from_outside_is_waited_for_before_the_turn() -> None:
    slow, quick, api = make_pod("slow", uid="s"), make_pod("quick", uid="q"), Api()
    cache = make_cache(slow, quick)
    answered = asyncio.Event()

    async def prepare(pod: Pod, node: str) -> None:
        if pod.name == "slow":
            await answered.wait()

    ledger = Ledger(cache, api, commit=one_of_a_kind, timeout_seconds=1, prepare=prepare)  # type: ignore[arg-type]
    waiting = asyncio.create_task(bind(ledger, slow, "a"))

    assert await bind(ledger, quick, "b") == ""

    answered.set()
    assert await waiting == ""


@pytest.mark.parametrize(
    ("taken", "posts"),
    [
        pytest.param(False, ["a", "a"], id="the place is still free: sent again"),
        pytest.param(
            True, ["a"], id="given to somebody else meanwhile: not sent again, and free to go elsewhere"
        ),
    ],
)
async def test_after_somebody_else_may_have_bound_the_policies_are_asked_again(
    taken: bool, posts: list[str]
) -> None:
    pod, api, term = make_pod("p", uid="u"), Api(ConnectError("lost")), [1]
    lease = Lease()
    cache = make_cache(pod)

    async def last_word(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        others = cluster.without_on({node: {pod.uid}}).nodes.row(node)["pods.requested"]
        return ("there is one already", {}) if others else ("", {})

    ledger = Ledger(
        cache,
        api,  # type: ignore[arg-type]
        commit=last_word,
        timeout_seconds=1,
        why_not=lease.why_not,
        term=lambda: term[0],
    )
    lease.problem = ""
    assert "unknown" in await bind(ledger, pod, "a")
    lease.problem, term[0] = "the view catches up", 2
    if taken:
        cache.put_pod(make_pod("other", uid="o", node="a"))
    lease.problem = ""

    await until(lambda: not ledger.unsettled_count)

    assert api.posts == posts
    assert cache.assumed_count == (0 if taken else 1)


async def test_what_is_assumed_already_is_bound_without_a_last_word() -> None:
    pod = make_pod("p")
    cache, api = make_cache(pod, make_pod("other", node="a")), Api()
    cache.assume(pod, "a")

    await make_ledger(api, cache).bind_assumed(pod, "a")

    assert api.bound == {pod.uid: "a"}
    assert counts(cache) == [2, 0]


async def test_whoever_waits_until_a_bind_is_settled_finds_it_so() -> None:
    pod = make_pod("p")
    cache = make_cache(pod)
    ledger = make_ledger(Api(ConnectError("lost"), ConnectError("lost")), cache)
    cache.assume(pod, "a")

    with pytest.raises(BindRefused):
        await ledger.bind_assumed(pod, "a")
    assert ledger.unsettled_count == 1
    await ledger.settled(pod.uid)

    assert ledger.unsettled_count == 0
    await ledger.settled("somebody else")


@pytest.mark.parametrize(
    ("surprise", "term"),
    [
        pytest.param(RuntimeError("the last word took too long"), 2, id="of the policies' last word"),
        pytest.param(RuntimeError("not what a client raises"), 1, id="of the client"),
    ],
)
async def test_a_surprise_while_rolling_forward_is_no_answer_and_it_is_tried_again(
    surprise: Exception, term: int
) -> None:
    pod, terms = make_pod("p", uid="u"), [1]
    cache = make_cache(pod)
    api = Api(ConnectError("lost"), *([surprise] if term == 1 else []))
    words: list[Exception | None] = [surprise, None]

    async def last_word(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        word = words.pop(0)
        if word is not None:
            raise word
        return "", {}

    ledger = Ledger(
        cache,
        api,  # type: ignore[arg-type]
        commit=last_word,
        timeout_seconds=1,
        term=lambda: terms[0],
    )
    cache.assume(pod, "a")
    with pytest.raises(BindRefused):
        await ledger.bind_assumed(pod, "a")
    terms[0] = term

    await ledger.settled(pod.uid)

    assert api.bound == {"u": "a"}
    assert ledger.unsettled_count == 0


async def test_what_was_decided_before_somebody_else_may_have_bound_is_not_sent() -> None:
    pod, api, terms = make_pod("p", uid="u"), Api(), [1]
    cache = make_cache(pod)
    ledger = Ledger(
        cache,
        api,  # type: ignore[arg-type]
        commit=None,
        timeout_seconds=1,
        term=lambda: terms[0],
    )
    cache.assume(pod, "a")
    decided_in = ledger.term
    terms[0] = 2

    with pytest.raises(BindRefused, match="another one was the leader meanwhile"):
        await ledger.bind_assumed(pod, "a", term=decided_in)

    assert api.posts == []
    assert counts(cache) == [0, 0]


async def test_a_bind_of_another_term_is_not_sent_although_we_lead_again() -> None:
    """A process that stood still during the last word: somebody else may have given the place away."""
    pod, api, term = make_pod("p", uid="u"), Api(), 1

    async def stands_still(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        nonlocal term
        term = 2
        return "", {}

    cache = make_cache(pod)
    ledger = Ledger(cache, api, commit=stands_still, timeout_seconds=1, term=lambda: term)  # type: ignore[arg-type]

    assert "another one was the leader meanwhile" in await bind(ledger, pod, "a")

    assert api.posts == []
    assert cache.assumed_count == 0


@pytest.mark.parametrize(
    "asked", [pytest.param(False, id="by ourselves"), pytest.param(True, id="as kube-scheduler asks again")]
)
async def test_what_somebody_else_has_given_away_meanwhile_is_not_given_once_more(
    asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if asked:
        monkeypatch.setattr(ledger_module, "_ROLL_FORWARD_SECONDS", (60.0, 60.0))
    pod, api, term = make_pod("p", uid="u"), Api(ConnectError("lost")), 1
    sent: list[object] = []

    async def first_that_is_free(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        taken = {other.annotations.get("gpu") for other in cluster.pods_on(node) if other.uid != pod.uid}
        return "", {"gpu": min({"0", "1"} - taken)}

    post = api.request

    async def noted(method: str, path: str, *, body: dict[str, dict[str, str]], **more: object) -> bytes:
        sent.append(body["metadata"]["annotations"])
        return await post(method, path, body=body, **more)

    api.request = noted  # type: ignore[method-assign]
    cache = make_cache(pod)
    ledger = Ledger(
        cache,
        api,  # type: ignore[arg-type]
        commit=first_that_is_free,
        timeout_seconds=1,
        term=lambda: term,
    )
    assert "unknown" in await bind(ledger, pod, "a")
    term = 2
    cache.put_pod(make_pod("other", uid="o", node="a", annotations={"gpu": "0"}))
    if asked:
        assert await bind(ledger, pod, "a") == ""
        await ledger.close()
    else:
        await until(lambda: not ledger.unsettled_count)

    assert sent == [{"gpu": "0"}, {"gpu": "1"}]
    assert cache.assumed_annotations(pod) == {"gpu": "1"}
    assert counts(cache) == [2, 0]


async def test_asked_again_for_a_place_that_somebody_else_has_given_away_it_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger_module, "_ROLL_FORWARD_SECONDS", (60.0, 60.0))
    pod, api, term = make_pod("p", uid="u"), Api(ConnectError("lost")), 1
    cache = make_cache(pod)

    async def alone(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        others = cluster.without_on({node: {pod.uid}}).nodes.row(node)["pods.requested"]
        return ("there is one already", {}) if others else ("", {})

    ledger = Ledger(cache, api, commit=alone, timeout_seconds=1, term=lambda: term)  # type: ignore[arg-type]
    assert "unknown" in await bind(ledger, pod, "a")
    term = 2
    cache.put_pod(make_pod("other", uid="o", node="a"))

    assert await bind(ledger, pod, "a") == "there is one already"

    assert api.posts == ["a"]
    await ledger.close()


async def test_a_term_that_began_while_a_bind_was_on_its_way_is_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that stood still while it waited for the answer."""
    monkeypatch.setattr(ledger_module, "_ROLL_FORWARD_SECONDS", (0.001, 0.002))
    pod, api, term, words = make_pod("p", uid="u"), Api(ConnectError("lost")), 1, 0
    api.hold.clear()

    async def last_word(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        nonlocal words
        words += 1
        return "", {}

    cache = make_cache(pod)
    ledger = Ledger(cache, api, commit=last_word, timeout_seconds=1, term=lambda: term)  # type: ignore[arg-type]
    binding = asyncio.create_task(bind(ledger, pod, "a"))
    await until(lambda: api.posts == ["a"])

    term = 2
    api.hold.set()
    await binding
    await until(lambda: not ledger.unsettled_count)

    assert words == 2


async def test_what_is_settled_during_another_last_word_is_not_sent_without_what_it_was_to_get(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger_module, "_ROLL_FORWARD_SECONDS", (60.0, 60.0))
    pod, api, term = make_pod("p", uid="u"), Api(ConnectError("lost")), 1
    cache = make_cache(pod)

    async def last_word(pod: Pod, node: str, cluster: Snapshot) -> tuple[str, dict[str, str]]:
        if term == 2:
            cache.forget(pod)
        return "", {"gpu": "0"}

    ledger = Ledger(cache, api, commit=last_word, timeout_seconds=1, term=lambda: term)  # type: ignore[arg-type]
    await bind(ledger, pod, "a")
    term = 2

    assert "is known just now" in await bind(ledger, pod, "a")

    assert api.posts == ["a"]
    await ledger.close()
