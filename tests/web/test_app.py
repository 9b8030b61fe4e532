"""Who may look, what JSON they get, and what hostile callers get."""

import asyncio
import base64
import threading
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from bayplan.engine.entry import PodRef
from bayplan.engine.journal import Journal
from bayplan.engine.ranking import ToWire
from bayplan.testing import make_cluster, make_pod
from bayplan.wire.scale import to_wire
from tests.web.decided import cluster_of, filtered, scored, written
from tests.web.looking import looking

CLUSTER = cluster_of(12)


def login(password: str, user: str = "me") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


async def test_the_list_has_each_decision_with_its_reasons() -> None:
    journal = Journal(clock=lambda: 1000.0)
    written(journal, CLUSTER)

    async with looking(journal, CLUSTER) as page:
        status, text, headers = await page.get("/api/decisions")

    first, second = msgspec.json.decode(text)
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert (first["decision"], first["verb"], first["best"]) == (2, "prioritize", "node-0007")
    assert second["reasons"] == {"too little CPU": 3, "wrong zone": 3}
    assert second["policies"] == ["capacity", "placement"]
    assert second["at"] == "1970-01-01T00:16:40.000Z"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("pod=shop/web", [2, 1], id="part of a pod's name"),
        pytest.param("namespace=sho", [], id="a namespace is a whole word"),
        pytest.param("namespace=bank", [5, 4, 3], id="namespace"),
        pytest.param("policy=placement", [3, 1], id="who refused"),
        pytest.param("reason=little", [3, 1], id="part of a reason"),
        pytest.param("result=error", [5], id="result"),
        pytest.param("verb=prioritize", [4, 2], id="verb"),
        pytest.param("before=3", [2, 1], id="older ones"),
        pytest.param("limit=2", [5, 4], id="not more than so many"),
        pytest.param("limit=-7", [5], id="one at least"),
        pytest.param("result=ok&verb=filter&namespace=bank", [3], id="all of them together"),
    ],
)
async def test_filters_leave_what_fits(query: str, found: list[int]) -> None:
    journal = Journal()
    written(journal, CLUSTER)
    written(journal, CLUSTER, namespace="bank")
    journal.note("bind", PodRef.of(make_pod("lost", namespace="bank")), generation=1, error="gone")

    async with looking(journal) as page:
        _, text, _ = await page.get(f"/api/decisions?{query}")

    assert [line["decision"] for line in msgspec.json.decode(text)] == found


async def test_a_pod_of_that_name_in_another_namespace_is_told() -> None:
    journal = Journal()
    written(journal, CLUSTER, namespace="bank")

    async with looking(journal) as page:
        status, text, _ = await page.get("/api/why/shop/web-1")

    assert status == 404
    assert "no decision about pod shop/web-1 in the journal, and about bank/web-1 there is" in text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/api/decisions?limit=many", 400, id="a limit that is no number"),
        pytest.param("/api/decisions?limit=1e999", 400, id="a limit without end"),
        pytest.param("/api/decisions?before=99999999999999999999999", 200, id="a number beyond all"),
        pytest.param("/api/decisions?limit=5&limit=6&nothing=x&%00=%ff", 200, id="twice, unknown, no UTF-8"),
        pytest.param("/api/decisions/" + "9" * 400, 404, id="a number of 400 digits"),
        pytest.param("/api/decisions/7", 404, id="a decision that is not there"),
        pytest.param("/api/decisions/1/../../state", 200, id="a path that the client makes short"),
        pytest.param("/api/why/shop/web-1?weight=nan", 400, id="a weight that is no number"),
        pytest.param("/api/why/shop/nobody", 404, id="a pod nobody asked about"),
        pytest.param("/api/elsewhere", 404, id="a path that is not there"),
        pytest.param("/static/..%2f..%2fapp.py", 404, id="out of the folder"),
        pytest.param("/static/page.css", 200, id="the style"),
        pytest.param(
            "/decisions/1?page=zero&sort=v99&order=up&group=-1&show=%3Cb%3E", 200, id="odd questions"
        ),
        pytest.param("/decisions/99", 404, id="a page of a decision that is not there"),
        pytest.param("/cluster?column=nothing&by=nothing", 200, id="a column that is not there"),
        pytest.param("/?before=x&limit=-1&pod=%F0%9F%92%A5%00", 200, id="odd filters"),
        pytest.param("/elsewhere", 404, id="a page that is not there"),
    ],
)
async def test_whatever_is_asked_has_an_answer(path: str, status: int) -> None:
    journal = Journal()
    written(journal, CLUSTER)

    async with looking(journal, CLUSTER) as page:
        found, _, headers = await page.get(path)

    assert found == status
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_the_state_has_numbers_that_json_has_no_word_for_as_null() -> None:
    async with looking(Journal()) as page:
        _, text, _ = await page.get("/api/state")

    assert msgspec.json.decode(text)["sources"]["usage"]["ageSeconds"] is None


async def test_only_reading_is_allowed() -> None:
    async with looking(Journal()) as page, page.session.post(page.address + "/api/decisions") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/api/decisions", "/api/events", "/static/page.js", "/state"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 401, id="nothing"),
        pytest.param({"Authorization": "Bearer wrong"}, 401, id="another token"),
        pytest.param({"Authorization": "Bearer "}, 401, id="no token"),
        pytest.param({"Authorization": "Basic ###"}, 401, id="no base64"),
        pytest.param({"Authorization": "Digest s3cret"}, 401, id="another way"),
        pytest.param(login("wrong"), 401, id="another password"),
        pytest.param({"Authorization": "Bearer s3cret"}, 200, id="the token"),
        pytest.param(login("s3cret"), 200, id="the token as a password"),
    ],
)
async def test_with_a_token_nobody_looks_without_it(
    path: str, headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("s3cret\n")

    async with (
        looking(Journal(), token_file=tmp_path / "token") as page,
        page.session.get(page.address + path, headers=headers) as response,
    ):
        assert response.status == status
        assert ("WWW-Authenticate" in response.headers) == (status == 401)


@pytest.mark.parametrize("text", [pytest.param(None, id="no file"), pytest.param(" \n", id="an empty file")])
async def test_a_token_that_is_not_there_lets_nobody_in_and_the_log_says_so_once(
    text: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if text is not None:
        (tmp_path / "token").write_text(text)

    async with looking(Journal(), token_file=tmp_path / "token") as page:
        for headers in ({"Authorization": "Bearer "}, login("")):
            assert (await page.get("/", headers=headers))[0] == 401
    (said,) = caplog.messages
    assert said.startswith(f"page.tokenFile: {tmp_path / 'token'}: ")
    assert said.endswith("; nobody is let in")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("127.0.0.1:8890", 200, id="the address"),
        pytest.param("localhost", 200, id="its name"),
        pytest.param("[::1]:8890", 200, id="the address of IPv6"),
        pytest.param("evil.example:8890", 403, id="a name of somebody else that leads here"),
        pytest.param("127.0.0.1.evil.example", 403, id="a name that looks like the address"),
        pytest.param("10.0.0.7:8890", 403, id="another address"),
    ],
)
async def test_without_a_token_a_foreign_name_does_not_open_the_page(host: str, status: int) -> None:
    async with looking(Journal()) as page:
        assert (await page.get("/api/decisions", headers={"Host": host}))[0] == status


async def test_a_why_that_takes_long_keeps_nobody_else_waiting() -> None:
    journal = Journal()
    written(journal, CLUSTER)
    started, may_end = threading.Event(), threading.Event()

    def slow(scores: np.ndarray) -> list[int]:
        started.set()
        assert may_end.wait(30)
        return to_wire(scores)

    async with looking(journal, CLUSTER, to_wire=slow) as page:
        why = asyncio.create_task(page.get("/api/why/shop/web-1"))
        assert await asyncio.to_thread(started.wait, 10)
        # As kube-scheduler's calls are: answered by the event loop.
        status, _, _ = await asyncio.wait_for(page.get("/api/state"), 10)
        assert status == 200
        assert not why.done()
        may_end.set()
        status, text, _ = await why
        assert status == 200
        assert msgspec.json.decode(text)["offered"] == 12


@pytest.mark.alone
async def test_five_thousand_nodes_in_full_take_well_under_a_tenth_of_a_second() -> None:
    cluster = cluster_of(5000)
    journal = Journal()
    journal.write("filter", filtered(cluster), generation=1)
    journal.write("prioritize", scored(cluster), generation=1)

    async with looking(journal, cluster) as page:
        await page.get("/api/decisions/1")
        for path in ("/api/decisions/1", "/api/decisions/2", "/decisions/2?sort=v3", "/cluster"):
            took = []
            for _ in range(5):
                start = time.perf_counter()
                status, text, _ = await page.get(path)
                took.append(time.perf_counter() - start)
                assert status == 200
            assert min(took) < 0.1, f"{path} took {took}"
            print(f"{path}: {min(took) * 1000:.0f} ms, {len(text) / 1000:.0f} kB")


@pytest.mark.parametrize(
    ("told", "key", "said"),
    [
        (to_wire, "shop/other", ": there is no such pod"),
        (
            to_wire,
            "shop/waits",
            ": it waits for default-scheduler, which has not asked here. It may have asked another replica,",
        ),
        (to_wire, "shop/placed", ": it is on a, and nobody asked here: it was another replica, or long ago"),
        (None, "shop/other", ": there is no such pod"),
        (
            None,
            "shop/waits",
            ": its schedulerName is default-scheduler, and this one places pods of bayplan-scheduler",
        ),
        (None, "shop/typo", "; did you mean 'bayplan-scheduler'?"),
        (None, "shop/ours", ": it was not judged here: not yet, by another replica, or long ago"),
        (None, "shop/ours-placed", ": it is on a; it was placed long ago, or by somebody else"),
    ],
)
async def test_why_nothing_is_known_about_a_pod(told: ToWire | None, key: str, said: str) -> None:
    ours, typo = {"schedulerName": "bayplan-scheduler"}, {"schedulerName": "bayplan-schduler"}
    cluster = make_cluster(
        ["a"],
        [
            make_pod("waits", namespace="shop"),
            make_pod("placed", namespace="shop", node="a"),
            make_pod("typo", namespace="shop", spec=typo),
            make_pod("ours", namespace="shop", spec=ours),
            make_pod("ours-placed", namespace="shop", spec=ours, node="a"),
        ],
    )

    async with looking(Journal(), cluster, to_wire=told) as page:
        status, text, _ = await page.get(f"/api/why/{key}")

    assert status == 404
    assert f"no decision about pod {key} in the journal: " in text
    assert said in text
