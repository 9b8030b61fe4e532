"""An extender that lets every node pass and remembers which nodes it was asked about: the feasible ones."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class FeasibleNodes:
    """What kube-scheduler's own filters left for each pod, inside its ``with`` block."""

    def __init__(self) -> None:
        self._seen: dict[str, frozenset[str]] = {}
        seen = self._seen

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Headers and body leave in one packet: two would wait for each other, 40 ms a pod.
            wbufsize = -1

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                metadata = asked["Pod"]["metadata"]
                names = asked["NodeNames"] or []
                seen[f"{metadata['namespace']}/{metadata['name']}"] = frozenset(names)
                answer = json.dumps({"nodenames": names}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: a run asks thousands of times."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="recorder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def entry(self) -> dict[str, Any]:
        """What belongs under ``extenders:`` in kube-scheduler's configuration.

        There is no verb for scores, so that the scores are those of the plugins alone.
        """
        port = self._server.server_address[1]
        return {"urlPrefix": f"http://127.0.0.1:{port}", "filterVerb": "filter", "nodeCacheCapable": True}

    def take(self, pod: str) -> frozenset[str]:
        """The nodes that passed every filter; none where kube-scheduler had nothing left to ask about."""
        return self._seen.pop(pod, frozenset())
