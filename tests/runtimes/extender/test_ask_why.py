"""All servers are asked; the newest answer wins; whoever does not answer is named."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from bayplan.engine.why import Why
from bayplan.runtimes.extender.ask import AskError
from bayplan.runtimes.extender.ask_why import ask_why, read_token
from tests.controlplane.ports import free_port

OLD, NEW = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z"
NAMESAKE = b'{"Error":"no decision about pod shop/p in the journal, and about demo/p there is"}'
NOT_OURS = b'{"Error":"no decision about pod shop/p in the journal: its schedulerName is other"}'
NO_DECISION = b'{"Error":"no decision about pod shop/p in the journal: nobody asked, or it was long ago"}'


def why_at(at: str) -> bytes:
    return msgspec.json.encode(
        Why(
            pod="shop/p",
            uid="u",
            decision=1,
            at=at,
            generation=1,
            offered=3,
            passed=0,
            refused=[],
            not_in_view=[],
            never_offered=0,
            never_offered_nodes=[],
            ranking=[],
            chosen="",
            error="",
            observe=False,
            weight=1.0,
            history=[],
        )
    )


class Page:
    """A server's page that always says the same, and keeps what it was asked."""

    def __init__(self, body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.asked: list[tuple[str, str | None]] = []
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page.asked.append((self.path, self.headers["Authorization"]))
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


Serve = Callable[..., Page]


@pytest.fixture
def page() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Page:
            made = Page(body, status=status, headers=headers)
            stack.callback(made.close)
            return made

        yield start


def test_the_newest_answer_wins_and_the_others_are_named(page: Serve) -> None:
    old, new, ignorant = page(why_at(OLD)), page(why_at(NEW)), page(NOT_OURS, 404)
    silent = f"http://127.0.0.1:{free_port()}"

    reply = ask_why([old.url, new.url, ignorant.url, silent], "shop/p", weight=7)

    assert (reply.server, reply.why.at) == (new.url, NEW)
    others = {other.server: other.problem for other in reply.others}
    assert list(others) == [old.url, ignorant.url, silent]
    assert others[old.url] == f"older: {OLD}"
    assert others[ignorant.url] == "knows nothing about the pod"
    assert others[silent].startswith("no answer: ")
    assert new.asked == [("/api/why/shop/p?weight=7", None)]


def test_pods_of_that_name_in_other_namespaces_are_told(page: Serve) -> None:
    with pytest.raises(AskError) as caught:
        ask_why([page(NAMESAKE, 404).url], "shop/p", weight=1)

    text = str(caught.value)
    assert "knows nothing about the pod, but it knows demo/p" in text
    assert text.endswith("Say the namespace with -n.")


def test_an_address_without_http_is_told_so() -> None:
    with pytest.raises(AskError, match=r"'127\.0\.0\.1:1' is no address.*begins with http://"):
        ask_why(["127.0.0.1:1"], "shop/p", weight=1)


def test_a_server_named_twice_is_asked_once(page: Serve) -> None:
    only = page(why_at(NEW))

    assert ask_why([only.url, f"{only.url}/"], "shop/p", weight=1).others == []
    assert len(only.asked) == 1


def test_the_token_is_sent(page: Serve, tmp_path: Path) -> None:
    only = page(why_at(NEW))
    (tmp_path / "token").write_text("secret\n")

    ask_why([only.url], "shop/p", weight=1, token=read_token(tmp_path / "token"))

    assert only.asked[0][1] == "Bearer secret"


def test_the_token_goes_to_nobody_else(page: Serve) -> None:
    elsewhere = page(why_at(NEW))
    liar = page(b"", 302, {"Location": f"{elsewhere.url}/api/why/shop/p"})

    with pytest.raises(AskError, match="status 302"):
        ask_why([liar.url], "shop/p", weight=1, token="secret")
    assert elsewhere.asked == []


def test_a_proxy_of_the_environment_is_not_asked(page: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, only = page(b"proxy", 502), page(why_at(NEW))
    monkeypatch.setenv("http_proxy", proxy.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    assert ask_why([only.url], "shop/p", weight=1).server == only.url
    assert proxy.asked == []


def test_a_server_that_says_why_it_knows_nothing_is_not_asked_whether_it_runs(page: Serve) -> None:
    with pytest.raises(AskError) as error:
        ask_why([page(NOT_OURS, 404).url], "shop/p", weight=1)

    assert str(error.value).endswith("knows nothing about the pod: its schedulerName is other")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        pytest.param(404, NO_DECISION, "is the namespace right", id="no server has heard of the pod"),
        pytest.param(404, NOT_OURS, "its schedulerName is other", id="it places pods of others"),
        pytest.param(401, b"{}", "give --token-file", id="the page wants a token"),
        pytest.param(500, b"broken", "status 500: broken", id="it is broken"),
        pytest.param(200, b"<html>", "not what `bayplan serve` answers", id="it is something else"),
    ],
)
def test_without_an_answer_the_error_says_what_to_do(
    page: Serve, status: int, body: bytes, said: str
) -> None:
    only = page(body, status)

    with pytest.raises(AskError) as error:
        ask_why([only.url], "shop/p", weight=1)

    assert only.url in str(error.value)
    assert said in str(error.value)


def test_where_nobody_listens_the_error_says_what_to_start() -> None:
    with pytest.raises(AskError, match=r"shop/p(.|\n)*no answer(.|\n)*Is `bayplan serve` running there"):
        ask_why([f"http://127.0.0.1:{free_port()}"], "shop/p", weight=1)


@pytest.mark.parametrize("address", ["127.0.0.1:8890", "ftp://x", "http://"])
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(AskError, match="is no address, such as http://"):
        ask_why([address], "shop/p", weight=1)


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AskError, match="token: No such file"):
        read_token(tmp_path / "token")
