"""Answers of the API server, in whatever pieces they come."""

import pytest

from bayplan.client.answer import Answer, BadAnswer, Reader

_WHOLE = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
_CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7;name=value\r\n, world\r\n0\r\n\r\n"
)


def _read(data: bytes, piece_bytes: int) -> Answer | None:
    reader = Reader()
    found = None
    for start in range(0, len(data), piece_bytes):
        assert found is None, "it was complete before the end"
        found = reader.feed(data[start : start + piece_bytes])
    return found


@pytest.mark.parametrize("piece_bytes", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    ("data", "status", "body"),
    [
        pytest.param(_WHOLE, 201, b"hello", id="with its length"),
        pytest.param(_CHUNKED, 200, b"hello, world", id="in chunks"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", id="without a body"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", 200, b"", id="empty"),
    ],
)
def test_an_answer_is_read_in_pieces_of_any_size(
    data: bytes, status: int, body: bytes, piece_bytes: int
) -> None:
    answer = _read(data, piece_bytes)

    assert answer is not None
    assert (answer.status, answer.body, answer.last) == (status, body, False)


def test_headers_are_found_whatever_their_case() -> None:
    answer = _read(b"HTTP/1.1 429 Slow\r\nRETRY-after:  7 \r\ncontent-length: 0\r\n\r\n", 1000)

    assert answer is not None
    assert answer.header("retry-after") == "7"
    assert answer.header("date") == ""


def test_a_server_says_that_it_closes_the_connection() -> None:
    answer = _read(b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", 1000)

    assert answer is not None
    assert answer.last


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", "begins with", id="another protocol"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n", "begins with", id="an old HTTP"),
        pytest.param(b"HTTP/1.1 2x0 OK\r\n\r\n", "begins with", id="a status that is no number"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", "how long", id="no length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "how long", id="a negative length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9" + b"9" * 20 + b"\r\n\r\n", "how long", id="huge"
        ),
        pytest.param(_CHUNKED.replace(b"5\r\nhello", b"zz\r\nhello"), "a chunk", id="a chunk without a size"),
        pytest.param(_CHUNKED.replace(b"5\r\nhello", b"-5\r\nhello"), "a chunk", id="a negative chunk"),
        pytest.param(_WHOLE + b"HTTP/1.1 200 OK", "more than one", id="an answer that nobody asked for"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000, "headers are longer", id="headers without end"),
    ],
)
def test_what_is_no_answer_is_said_to_be_none(data: bytes, problem: str) -> None:
    with pytest.raises(BadAnswer, match=problem):
        Reader().feed(data)
