"""An incremental parser of HTTP/1.1 answers."""

from dataclasses import dataclass

_HEAD_BYTES = 64 * 1024
_BODY_BYTES = 512 * 1024 * 1024
_NO_BODY = (204, 304)


class BadAnswer(ValueError):
    """The bytes are no HTTP/1.1 answer."""


@dataclass(frozen=True)
class Answer:
    """A complete answer of the server."""

    status: int
    head: bytes
    """The lines before the body."""
    body: bytes
    last: bool = False
    """Whether the server closes the connection after it."""

    def header(self, name: str) -> str:
        """The value of a header, or ``""``; ``name`` in lower case."""
        return _header(self.head, name.encode()).decode("latin-1")


class Reader:
    """Parses one answer from successive pieces."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._start = 0
        self._status = 0
        self._head = b""
        self._length = 0
        self._chunks: list[bytes] | None = None

    def feed(self, data: bytes) -> Answer | None:
        """Add bytes; returns the answer once it is complete; raises `BadAnswer`."""
        self._data += data
        if not self._head and not self._read_head():
            return None
        body = self._whole() if self._chunks is None else self._chunked()
        if body is None:
            return None
        if len(self._data) > self._start:
            raise BadAnswer("there is more than one answer")
        return Answer(self._status, self._head, body, last=_says(self._head, b"connection", b"close"))

    def _read_head(self) -> bool:
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            if len(self._data) > _HEAD_BYTES:
                raise BadAnswer(f"its headers are longer than {_HEAD_BYTES} bytes")
            return False
        head = bytes(self._data[:end])
        if not head.startswith(b"HTTP/1.1 ") or not head[9:12].isdigit():
            raise BadAnswer(f"it begins with {head[:40]!r}")
        self._status, self._head, self._start = int(head[9:12]), head, end + 4
        length = _header(head, b"content-length")
        if _says(head, b"transfer-encoding", b"chunked"):
            self._chunks = []
        elif length.isdigit() and int(length) <= _BODY_BYTES:
            self._length = int(length)
        elif length or self._status not in _NO_BODY:
            raise BadAnswer(f"it does not say how long it is: content-length {length[:40]!r}")
        return True

    def _whole(self) -> bytes | None:
        end = self._start + self._length
        if len(self._data) < end:
            return None
        body = bytes(memoryview(self._data)[self._start : end])
        self._start = end
        return body

    def _chunked(self) -> bytes | None:
        assert self._chunks is not None, "asked of an answer in chunks"
        while True:
            line = self._data.find(b"\r\n", self._start)
            if line < 0:
                return None
            try:
                size = int(bytes(self._data[self._start : line]).partition(b";")[0], 16)
            except ValueError:
                raise BadAnswer(
                    f"a chunk begins with {bytes(self._data[self._start : line])[:40]!r}"
                ) from None
            end = line + 2 + size + 2
            if not 0 <= size <= _BODY_BYTES:
                raise BadAnswer(f"a chunk of {size} bytes")
            if len(self._data) < end:
                return None
            self._chunks.append(bytes(memoryview(self._data)[line + 2 : end - 2]))
            self._start = end
            if size == 0:
                return b"".join(self._chunks)


def _header(head: bytes, name: bytes) -> bytes:
    lowered = head.lower()
    at = lowered.find(b"\r\n" + name + b":")
    if at < 0:
        return b""
    start = at + len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else len(head)].strip()


def _says(head: bytes, name: bytes, value: bytes) -> bool:
    return value in _header(head, name).lower()
