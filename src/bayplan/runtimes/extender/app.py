"""Routes HTTP requests to the verbs, and answers kube-scheduler with status 200 whatever happens.

kube-scheduler reads the body of an answer only with status 200. An error's text goes into the answer's
``Error`` field, where the verb has one, and always into the header ``Bayplan-Error``.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from bayplan.engine.guard import Attempt
from bayplan.kube.yaml import suggest
from bayplan.ops.logs import Sparingly
from bayplan.ops.metrics import Metrics
from bayplan.ops.tls import TlsFiles
from bayplan.ops.tracing import Tracing, begin, note_hooks
from bayplan.recording.notes import Basis
from bayplan.recording.recorder import Recorder
from bayplan.runtimes.extender import answer
from bayplan.runtimes.extender.ahead import Ahead, Foreseen, Prepared, foresee
from bayplan.runtimes.extender.exchange import LARGE_BYTES, BodyError, Line, Request, Response
from bayplan.runtimes.extender.generation import Generation
from bayplan.runtimes.extender.known import know
from bayplan.runtimes.extender.later import Later
from bayplan.runtimes.extender.rejudge import Call
from bayplan.runtimes.extender.verbs import Answer, Binder
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.noted import Noted
from bayplan.runtimes.shadow import Shadow
from bayplan.runtimes.workers import RequestOverrun, Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.nudge import Nudge
from bayplan.state.view import View
from bayplan.wire import v1
from bayplan.wire.codec import WireError, encode

log = logging.getLogger(__name__)

_LARGE_AT_ONCE = 2
# The event loop blocks while a thread judges a small request: switching back and forth would slow down both.
_PATIENCE_SECONDS = 0.005
# A known answer is checked once no request came for the first, and after the second at the latest.
_PAUSE_SECONDS, _NO_PAUSE_SECONDS = 0.02, 1.0
# How often a request is judged again after the cluster changed; most changes do not concern its pod.
_SECOND_LOOKS = 3

VERBS = ("filter", "prioritize", "preempt", "bind")
_JUDGED = ("filter", "prioritize")


class ExtenderApp:
    """Routes requests to verbs, within limits."""

    def __init__(
        self,
        generation: Generation,
        workers: Workers,
        view: View,
        *,
        limits: Limits,
        metrics: Metrics,
        path: str = "/",
        tls: TlsFiles | None = None,
    ) -> None:
        self.generation = generation
        """The policies in force; a reload replaces it."""
        self.view = view
        self.binder: Binder | None = None
        """Binds pods; ``None`` without an API server."""
        self.nudge: Nudge | None = None
        """Remembers refused pods, to touch them when the cluster changes; ``None`` where nudging is off."""
        self.tracing: Tracing | None = None
        """Gets a trace of each request; ``None`` where tracing is off."""
        self.recorder: Recorder | None = None
        """Records requests and answers; ``None`` where recording is off."""
        self.shadow: Shadow | None = None
        """Judges requests again with the candidate configuration, where there is one."""
        self.hold: Callable[[], Awaitable[None]] | None = None
        """Every request awaits this first, while this server is about to get the Lease."""
        self.tls = tls
        self.leaving = False
        """Whether answers close their connections, so that callers connect to another server."""
        self.asked_at = float("-inf")
        """When the last request arrived, by the event loop's clock."""
        self.in_flight = 0
        self._working = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self._workers = workers
        self._limits = limits
        self._metrics = metrics
        # Bounds the memory that large requests take.
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._warnings = Sparingly()
        self.later = Later()
        """Journal and metrics work that waits until answers are sent; readers of either run it first."""
        self._ahead = Ahead(metrics.prepared)
        self._background: set[asyncio.Task[None]] = set()
        prefix = "/" + path.strip("/")
        self._prefix = prefix if prefix.endswith("/") else prefix + "/"
        self._routes = {self._prefix + verb: verb for verb in VERBS}

    async def handle(self, request: Request) -> Response:
        """Answer one request of any kind."""
        verb = self._routes.get(request.path) or self._routes.get(request.path.rstrip("/"))
        refused = self._not_admitted(request)
        if refused:
            # kube-scheduler shows only the status, so the log is the one place with the reason.
            self._warnings.warn(log, refused, f"{verb or 'request'}: {refused}")
            self._metrics.request_of(verb or "unknown", "forbidden").inc()
            return _plain(403, refused)
        if request.method != "POST":
            return self._not_a_post(request, verb)
        self.asked_at = asyncio.get_running_loop().time()
        self.in_flight += 1
        self.idle.clear()
        try:
            if self.hold is not None:
                await self.hold()
            if request.large:
                return await self._in_turn(request, verb)
            return await self._read_and_answer(request, verb)
        except Exception as error:
            # What tells of an error has failed, too: a policy may have a handler of its own in the log.
            body = await _body_of(request)
            return self._json(self._refused(verb, "error", f"internal error: {type(error).__name__}", body))
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self.idle.set()

    def answer_at_once(self, path: str, body: bytes, line: Line) -> Response | None:
        """Answer a POST without asking policies, where the answer is known; else ``None``, for `handle`.

        Never blocks and never waits. Runs thousands of times a minute with cold caches: keep the steps few.
        """
        verb = self._routes.get(path)
        if verb not in _JUDGED or len(body) > LARGE_BYTES:
            return None
        cluster = self.view.same_nodes
        if cluster is None or (self.tls is not None and self.tls.admits(line.certificate())):
            return None
        if self._needs_policies():
            return None
        start = time.perf_counter()
        generation = self.generation
        said = generation.at_once.answer(verb, body, cluster, generation.sources.current)
        if said is None:
            return None
        self.asked_at = asyncio.get_running_loop().time()
        if said.cut_for:
            generation.verbs.turns.told(said.cut_for)
        if generation.at_once.due(start):
            self._check_in_a_pause(generation, verb, body, until=self.asked_at + _NO_PAUSE_SECONDS)
        seconds = time.perf_counter() - start
        # Not a reference to the whole answer: its memory is freed once it is sent.
        write = partial(self._write_known, verb, said.write_down, seconds, len(body))
        self.later.put(write, nodes=said.weight)
        return self._json(said, generation=generation.number)

    def _check_in_a_pause(self, generation: Generation, verb: str, body: bytes, *, until: float) -> None:
        """Check a known answer against the policies, once no request came for a moment."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now < until and now - self.asked_at < _PAUSE_SECONDS:
            again = partial(self._check_in_a_pause, generation, verb, body, until=until)
            loop.call_later(_PAUSE_SECONDS, again)
            return
        self._in_background(self._check(generation, verb, body))

    async def _check(self, generation: Generation, verb: str, body: bytes) -> None:
        cluster, readings = self.view.current, generation.sources.current
        if cluster is None:
            return
        ask = partial(generation.at_once.judge, verb, body, cluster, readings)
        try:
            with generation.used():
                judged = await self._workers.run(
                    ask, optional=generation.shadows, patience_seconds=_PATIENCE_SECONDS
                )
        except Exception as error:
            # The next request that asks the policies reports the error.
            log.debug("a known answer was not checked: %r", error)
            return
        generation.at_once.check(judged, cluster, readings, scored=verb == "prioritize")

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this as a task of its own, and keep a reference until it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _needs_policies(self) -> bool:
        """Whether known answers must not be used: a recorder, tracing, a candidate or `hold` is active."""
        if self.recorder is not None or self.tracing is not None or self.hold is not None:
            return True
        return self.shadow is not None and self.shadow.active

    def _write_known(self, verb: str, write: Callable[[], None], seconds: float, size: int) -> None:
        self._count(verb, "ok", seconds, size)
        self._metrics.known_of(verb).inc()
        write()

    async def _in_turn(self, request: Request, verb: str | None) -> Response:
        """Answer a large request, at most `_LARGE_AT_ONCE` at a time."""
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                await self._large.acquire()
        except TimeoutError:
            text = "too many large requests at a time: set nodeCacheCapable: true"
            return self._json(self._problem(verb, "overload", text), close=True)
        try:
            return await self._read_and_answer(request, verb)
        finally:
            self._large.release()

    async def _read_and_answer(self, request: Request, verb: str | None) -> Response:
        try:
            body = await request.read(timeout_seconds=self._limits.body_seconds)
        except BodyError as error:
            return self._json(self._problem(verb, "invalid", str(error)))
        if verb is None:
            said = self._problem(verb, "unknown-verb", self._unknown(request.path))
            return self._json(said)
        # Requests whose body is still arriving do not count: they take no thread, and a slow caller is no
        # overload. Nor do binds: they wait for the API server, and a slow one holds up one bind for each pod.
        judged = verb != "bind"
        if judged and self._working >= self._limits.max_in_flight:
            text = f"{self._working} requests in flight: raise extender.limits.maxInFlight"
            return self._json(self._problem(verb, "overload", text, body=body))
        start = time.perf_counter()
        self._working += judged
        # A reload while this request runs must not change its policies.
        generation = self.generation
        trace = begin(verb, generation.number, request.headers) if self.tracing is not None else None
        try:
            with generation.used():
                said = await self._say(generation, verb, body)
        finally:
            self._working -= judged
        seconds = time.perf_counter() - start
        self.later.put(partial(self._count, verb, said.result, seconds, len(body)))
        if trace is not None and self.tracing is not None:
            self.tracing.tell(trace, seconds=seconds, result=said.result, error=said.error)
        return self._json(said, generation=generation.number)

    def _count(self, verb: str, result: str, seconds: float, size: int) -> None:
        self._metrics.size_of(verb).observe(size)
        self._metrics.duration_of(verb).observe(seconds)
        self._metrics.request_of(verb, result).inc()

    async def _say(self, generation: Generation, verb: str, body: bytes) -> Answer:
        try:
            if verb == "bind":
                return await self._bind(generation, body)
            return await self._judge(generation, verb, body)
        except WireError as error:
            return self._problem(verb, "invalid", str(error), body=body, count=False)
        except RequestOverrun as error:
            return self._problem(verb, "error", str(error), body=body, count=False)
        except Exception as error:
            log.exception("%s: this is a bug in Bayplan", verb)
            text = f"internal error: {type(error).__name__}"
            return self._problem(verb, "error", text, body=body, count=False)

    async def _bind(self, generation: Generation, body: bytes) -> Answer:
        """Bind, once the cluster is listed: a previous server may have filtered the pod."""
        if self.view.current is None and (problem := self.view.problem()):
            return self._problem("bind", "error", problem, body=body, count=False)
        # The pod's filter and prioritize must stand before its bind in the journal.
        self.later.catch_up()
        said = await generation.verbs.bind(body, self.binder)
        if self.recorder is not None:
            self.recorder.bound(body, error=said.error)
        return said

    async def _judge(self, generation: Generation, verb: str, body: bytes) -> Answer:
        """Ask the policies; ask again where the view turns out to be behind kube-scheduler's."""
        # One limit for everything, also for scores ahead of the question that came to nothing.
        arrived = time.monotonic()
        if verb == "prioritize" and (ready := await self._ready(generation, body)) is not None:
            return ready
        if verb == "preempt":
            # The filter that found no node must stand before the preempt in the journal.
            self.later.catch_up()
        work: Callable[..., Answer] = getattr(generation.verbs, verb)
        if verb in _JUDGED and not self._needs_policies():
            work = partial(work, known=generation.at_once.hooks)
        until = arrived + self._limits.request_seconds
        for last in (*[False] * _SECOND_LOOKS, True):
            began = time.monotonic()
            # Taken on the event loop, which owns the view; a snapshot may go to any thread.
            cluster = self.view.current
            if cluster is None and (problem := self.view.problem()):
                return self._problem(verb, "error", problem, body=body, count=False)
            readings = await generation.readings(verb, body, self._workers)
            noted = Noted[Answer](partial(work, body, cluster, readings=readings))
            patience = 0.0 if len(body) > LARGE_BYTES else _PATIENCE_SECONDS
            said = await self._workers.run(
                noted, optional=generation.shadows, patience_seconds=patience, since=arrived
            )
            note_hooks(noted.attempt)
            # A look that takes as long as this one must end in time: a late answer is none.
            ended = time.monotonic()
            latest = until - (ended - began)
            if last or ended > latest or cluster is None or not await self._behind(said, cluster):
                break
            # To find out took time as well.
            if time.monotonic() > latest:
                break
            said.write_down()
        if said.cut_for:
            # Once, however often the request was judged: kube-scheduler got one answer.
            generation.verbs.turns.told(said.cut_for)
        if said.refused is not None and self.nudge is not None:
            self.nudge.refused(said.refused.pod, said.refused.helped_by)
        call = Call(verb, body, said, cluster, readings, noted.attempt.now)
        self._answered(generation, call, noted.attempt)
        return said

    def _answered(self, generation: Generation, call: Call, attempt: Attempt) -> None:
        """Tell recorder and candidate, and schedule what happens after the answer is sent."""
        if self.recorder is not None:
            basis = Basis(generation.told, call.cluster, call.readings, attempt)
            self.recorder.answered(call.verb, call.body, call.said.body, basis=basis)
        if self.shadow is not None:
            self.shadow.offer(call)
        # `call_soon` runs after the answer is sent, so an exception there cannot spoil the answer.
        asyncio.get_running_loop().call_soon(self._learn_from, generation, call)
        if len(call.body) > LARGE_BYTES:
            # Now: it is little work beside the request, and frees the memory of a large body.
            self.later.put(call.said.write_down)
            self.later.catch_up()
        elif call.verb == "filter":
            asyncio.get_running_loop().call_soon(self._look_ahead, generation, call)
        else:
            self._write_down(call.said)

    def _learn_from(self, generation: Generation, call: Call) -> None:
        """Learn about pods of this kind on all nodes where that pays, or check what was learned."""
        judged, cluster = call.said.judged, call.cluster
        if judged is None or cluster is None or call.verb not in _JUDGED or self._needs_policies():
            return
        at_once = generation.at_once
        # Half of the limit, since a hook is not always as fast.
        within = self._limits.policy_seconds / 2
        if kind := at_once.wanted(judged, cluster, call.readings, within_seconds=within):
            self._in_background(self._learn(generation, call, kind))
        elif judged.question.known is not None:
            if at_once.due(time.perf_counter()):
                until = self.asked_at + _NO_PAUSE_SECONDS
                self._check_in_a_pause(generation, call.verb, call.body, until=until)
        else:
            at_once.check(judged, cluster, call.readings, scored=call.verb == "prioritize")

    async def _learn(self, generation: Generation, call: Call, kind: bytes) -> None:
        judged, cluster = call.said.judged, call.cluster
        assert judged is not None, "`_learn_from` checked it"
        assert cluster is not None, "`_learn_from` checked it"
        ask = partial(know, generation.verbs, judged.question.pod, cluster, call.readings)
        try:
            with generation.used():
                known = await self._workers.run(ask, optional=generation.shadows)
        except Exception as error:
            # Pods of the kind are still judged by the policies, one by one.
            log.debug("nothing is known about pods of a kind: %r", error)
            known = None
        generation.at_once.learned(kind, known, cluster)

    def _look_ahead(self, generation: Generation, call: Call) -> None:
        """After a filter's answer is sent, work out the prioritize that follows, if it can be foreseen."""
        loop = asyncio.get_running_loop()
        if self._ahead.worth_a_look():
            foreseen = foresee(call, generation, now=loop.time())
            if foreseen is not None and self._ahead.expect(foreseen):
                foreseen.prepared = loop.create_task(self._prepare(foreseen))
        self._write_down(call.said)

    async def _prepare(self, foreseen: Foreseen) -> Prepared | None:
        generation = foreseen.generation
        noted = Noted[Answer](partial(generation.verbs.prioritize_passed, foreseen.filtered))
        try:
            with generation.used():
                said = await self._workers.run(
                    noted, optional=generation.shadows, patience_seconds=_PATIENCE_SECONDS
                )
        except Exception as error:
            # The prioritize itself will ask the policies, and report the error.
            log.debug("no scores ahead of time: %r", error)
            return None
        failed = said.judged is None or said.judged.decision.failures
        return None if failed else Prepared(said, noted.attempt)

    async def _ready(self, generation: Generation, body: bytes) -> Answer | None:
        """The prepared answer to a prioritize that was foreseen; ``None`` where there is none."""
        found = await self._ahead.take(body, generation, now=asyncio.get_running_loop().time())
        if found is None:
            return None
        foreseen, prepared = found
        note_hooks(prepared.attempt)
        seen, attempt = foreseen.cluster, prepared.attempt
        call = Call("prioritize", body, prepared.said, seen, foreseen.readings, attempt.now)
        self._answered(generation, call, attempt)
        return prepared.said

    def _write_down(self, said: Answer) -> None:
        judged = said.judged
        self.later.put(said.write_down, nodes=0 if judged is None else len(judged.question.nodes))
        if judged is not None and judged.decision.failures:
            # Writing also logs the failure; people read the log while things go wrong.
            asyncio.get_running_loop().call_soon(self.later.catch_up)

    async def _behind(self, said: Answer, seen: Snapshot) -> bool:
        if said.not_in_view and await self.view.read(said.not_in_view):
            return True
        return said.refused is not None and await self.view.news_for(said.refused.pod, seen)

    def _problem(
        self, verb: str | None, result: str, text: str, *, body: bytes | None = None, count: bool = True
    ) -> Answer:
        """A valid answer of the verb, with the error text where the verb has a field for it."""
        self._warnings.warn(log, f"{verb} {result}", f"{verb or 'request'}: {text}")
        if self.recorder is not None and verb is not None:
            self.recorder.unjudged(verb, text)
        if count:
            self._metrics.request_of(verb or "unknown", result).inc()
        return self._refused(verb, result, text, body)

    def _refused(self, verb: str | None, result: str, text: str, body: bytes | None) -> Answer:
        """An error as the verb answers it, with its text where there is a field for it."""
        verbs = self.generation.verbs
        if verb is not None and body is not None and verbs.observe:
            # With --observe not even an error of ours may fail a pod.
            untouched = verbs.untouched(verb, body)
            if untouched is not None:
                return Answer(untouched, result, text)
        empty: dict[str, bytes] = {
            "prioritize": b"[]",
            "preempt": encode(v1.ExtenderPreemptionResult({})),
            "bind": encode(v1.ExtenderBindingResult(text)),
        }
        return Answer(empty.get(verb or "", encode(answer.filter_error(text))), result, text)

    def _unknown(self, path: str) -> str:
        asked = path.rpartition("/")[2]
        hint = suggest(asked, VERBS) if asked else f", such as {self._prefix}filter"
        return f"no verb at {path!r}; verbs are under {self._prefix}{hint}"

    def _not_a_post(self, request: Request, verb: str | None) -> Response:
        if verb is None:
            return _plain(404, self._unknown(request.path))
        return _plain(405, f"{verb} wants POST, got {request.method}", headers={"Allow": "POST"})

    def _not_admitted(self, request: Request) -> str:
        return "" if self.tls is None else self.tls.admits(request.certificate())

    def _json(self, said: Answer, *, generation: int = 0, close: bool = False) -> Response:
        headers = {"Bayplan-Generation": str(generation)} if generation else {}
        if said.error:
            headers["Bayplan-Error"] = _header(said.error)
        return Response(said.body, headers=headers, close=close or self.leaving)


async def _body_of(request: Request) -> bytes | None:
    """The body of a request that is there as a whole and not too large, else ``None``; waits for nothing."""
    with contextlib.suppress(BodyError):
        return await request.read(timeout_seconds=0) if request.complete else None
    return None


def _plain(status: int, text: str, *, headers: dict[str, str] | None = None) -> Response:
    """An answer with an error status, for callers other than kube-scheduler."""
    return Response(msgspec.json.encode({"Error": text}), status, headers or {})


def _header(text: str) -> str:
    """The text as a header can carry it: one line of printable ASCII."""
    return " ".join("".join(c if " " < c <= "~" else " " for c in text[:1000]).split())[:500]
