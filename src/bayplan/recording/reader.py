"""Reads a recording line by line, and skips damaged lines."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from bayplan.kube.unread import unread
from bayplan.recording.lines import (
    FORMAT,
    AnyLine,
    Bound,
    Dropped,
    Header,
    RecordingError,
    Seen,
    Unjudged,
)
from bayplan.recording.mistaken import said_of_snapshot

_CHUNK = 1 << 20
# The longest line: one may have a whole cluster, but a longer one is no recording.
_LINE_BYTES = 1 << 30
_GZIP_MAGIC = b"\x1f\x8b"
_WANTED = "no recording: `bayplan serve --record FILE` writes one"
_LINE = msgspec.json.Decoder(AnyLine)


class Damage(Exception):
    """A part of the file that cannot be read; the text says where and why."""


def read_lines(path: Path) -> Iterator[AnyLine | Damage]:
    """The lines of a file; a `Damage` for each that cannot be read."""
    number = 0
    for number, text in enumerate(texts(path), start=1):
        if isinstance(text, Damage):
            # A snapshot may be one line without an end, which looks like one that is cut off.
            if number == 1 and (other := said_of_snapshot(path, _WANTED)):
                raise RecordingError(f"{path}: {other}")
            yield text
            continue
        try:
            line = _LINE.decode(text)
        except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError) as error:
            if number == 1:
                other = _other_file(path, text) or f"no recording of Bayplan: {error}"
                raise RecordingError(f"{path}: {other}") from None
            yield Damage(f"line {number}: {error}")
            continue
        if number == 1:
            _check(path, line)
        yield line
    if not number:
        raise RecordingError(f"{path}: the file is empty; `bayplan serve --record FILE` writes one")


def is_worth_keeping(path: Path) -> bool:
    """Whether the file must be kept: not if it is a recording without a decision yet.

    A file that is no recording is always kept.
    """
    if not path.stat().st_size:
        return False
    ours = False
    try:
        for line in read_lines(path):
            if isinstance(line, Seen | Bound | Unjudged | Dropped):
                return True
            ours = ours or isinstance(line, Header)
    except RecordingError:
        return True
    return not ours


def _other_file(path: Path, text: bytes) -> str:
    """Which other file begins with this line; ``""`` if none that is known."""
    if b'"line":"journal"' not in text:
        return said_of_snapshot(path, _WANTED)
    return "a journal of decisions, and no recording: `bayplan why --journal FILE` reads it"


def _check(path: Path, line: AnyLine) -> None:
    if not isinstance(line, Header):
        raise RecordingError(f"{path}: no recording of Bayplan: it does not begin with a header")
    if line.format != FORMAT:
        raise RecordingError(
            f"{path}: format {line.format}, and this Bayplan reads {FORMAT}: use Bayplan {line.bayplan}"
        )


def texts(path: Path, file: BinaryIO | None = None) -> Iterator[bytes | Damage]:
    """The lines as bytes, from ``file`` if it is open already.

    The last line may be cut off, if the process was killed while it wrote.
    """
    rest: list[bytes] = []
    size = 0
    for chunk in _chunks(path, file):
        if isinstance(chunk, Damage):
            yield chunk
            continue
        *whole, last = chunk.split(b"\n")
        for text in whole:
            yield b"".join([*rest, text])
            rest, size = [], 0
        rest.append(last)
        size += len(last)
        if size > _LINE_BYTES:
            raise RecordingError(f"{path}: a line of more than {_LINE_BYTES} bytes: no recording of Bayplan")
    if size:
        yield Damage("the last line is cut off, as by a kill; it is left out")


def _chunks(path: Path, file: BinaryIO | None) -> Iterator[bytes | Damage]:
    try:
        with file or path.open("rb") as opened:
            packed = opened.read(2) == _GZIP_MAGIC
            opened.seek(0)
            blocks = iter(lambda: opened.read(_CHUNK), b"")
            yield from _unpacked(blocks) if packed else blocks
    except OSError as error:
        how = "; `bayplan serve --record FILE` writes one"
        raise RecordingError(unread(path, error, or_else=how)) from error


def _unpacked(blocks: Iterator[bytes]) -> Iterator[bytes | Damage]:
    gzip = zlib.decompressobj(31)
    whole = True
    for block in blocks:
        data = block
        while data:
            try:
                # Decompressed in pieces: a small file must not fill the memory.
                yield gzip.decompress(data, _CHUNK)
                whole = gzip.eof
            except zlib.error as error:
                yield Damage(f"the compressed file is damaged here: {error}")
                return
            data = gzip.unconsumed_tail
            if gzip.eof:
                data = gzip.unused_data
                gzip = zlib.decompressobj(31)
    yield gzip.flush()
    if not whole:
        yield Damage("the file has no end: the server was killed, or still writes it")
