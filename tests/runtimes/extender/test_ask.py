"""What a server says about its view, in words, whatever it is that answers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from bayplan.runtimes.extender.ask import AskError, ask_verification


@contextmanager
def answering(status: int, body: bytes, content: str = "application/json") -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("body", "content", "said"),
    [
        pytest.param(
            b'{"Error":"nothing to verify: this server watches no cluster"}',
            "application/json",
            "nothing to verify: this server watches no cluster",
            id="our own error",
        ),
        pytest.param(b'["no"]', "application/json", '["no"]', id="JSON of somebody else"),
        pytest.param(b"gone", "text/plain", "gone", id="a text"),
        pytest.param(b"<p>", "text/html", "this is a page for people; the ops address is", id="a page"),
    ],
)
def test_an_error_is_told_in_words(body: bytes, content: str, said: str) -> None:
    with answering(404, body, content) as server, pytest.raises(AskError) as caught:
        ask_verification(server)

    assert str(caught.value).startswith(f"{server}/verify: {said}")


def test_nobody_there_is_told_without_names_of_the_library() -> None:
    with socket.socket() as taken:
        # Bound and not listening: nobody else gets the port, and nobody answers.
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(AskError) as caught:
            ask_verification(f"http://127.0.0.1:{taken.getsockname()[1]}")

    assert "urlopen" not in str(caught.value)
    assert str(caught.value).endswith("Connection refused; is Bayplan running there?")
