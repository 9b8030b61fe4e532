"""The least that an extender in Python can be: one thread, one dictionary, nothing beside the answer.

    python server.py PORT NODES.json [keep]

It is nothing to use: it follows no cluster, has no deadlines and no limits, cannot say why, and takes it that
every request is as it should be. It shows what all that Bayplan does beside the answer costs.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import cast

import msgspec
import uvloop


class Args(msgspec.Struct):
    """What is read of a request."""

    node_names: list[str] = msgspec.field(name="NodeNames")


DECODER, ENCODER = msgspec.json.Decoder(Args), msgspec.json.Encoder()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class Answers:
    """What is known of the nodes, and the two verbs."""

    def __init__(self, nodes: Path, *, keep: bool) -> None:
        labels = {
            node["metadata"]["name"]: node["metadata"]["labels"]
            for node in json.loads(nodes.read_text())["items"]
        }
        self._ssd = {name: each.get("disk") == "ssd" for name, each in labels.items()}
        self._points = {name: int(each["example.com/points"]) for name, each in labels.items()}
        self._keep = keep

    def filter(self, body: bytes) -> bytes:
        """Nodes with an SSD pass; with ``keep`` the best alone is told. Reasons where there is none."""
        names, ssd = DECODER.decode(body).node_names, self._ssd
        passed = [name for name in names if ssd[name]]
        failed = {} if passed else dict.fromkeys(names, "node has no SSD")
        if self._keep and passed:
            passed = [max(passed, key=self._points.__getitem__)]
        return ENCODER.encode({"Nodes": None, "NodeNames": passed, "FailedNodes": failed, "Error": ""})

    def prioritize(self, body: bytes) -> bytes:
        """A score by a label."""
        names = DECODER.decode(body).node_names
        return ENCODER.encode([{"Host": name, "Score": self._points[name]} for name in names])


class Connection(asyncio.BufferedProtocol):
    """Requests one after the other, each with a ``Content-Length``."""

    buffer = memoryview(bytearray(256 * 1024))

    def __init__(self, answers: Answers) -> None:
        self._verbs = {b"/filter": answers.filter, b"/prioritize": answers.prioritize}
        self._came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody called."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where bytes go; they are taken out of it before anybody else is read."""
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Answer, once the request is whole."""
        self._came += self.buffer[:nbytes]
        head, end, body = self._came.partition(b"\r\n\r\n")
        if not end:
            return
        _, _, length = head.lower().partition(b"content-length:")
        if len(body) < int(length.partition(b"\r\n")[0] or 0):
            return
        self._came = b""
        verb = self._verbs.get(head.split(b" ", 2)[1])
        answer = verb(body) if verb else b"{}"
        self._transport.write(HEAD % len(answer) + answer)


async def serve(port: int, answers: Answers) -> None:
    """Until somebody ends it."""
    server = await asyncio.get_running_loop().create_server(lambda: Connection(answers), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), Answers(Path(sys.argv[2]), keep="keep" in sys.argv[3:])))
