"""A real Prometheus that scrapes gauges which a test sets, one a node."""

from __future__ import annotations

import http.client
import http.server
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.controlplane.waiting import wait_until
from tests.e2e.prometheus_binary import require

READY_SECONDS = 60.0
METRIC = "node_load_fraction"


class Gauges:
    """What every node would say of itself, in Prometheus' text format."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self._values = dict(values)

    def set(self, node: str, value: float) -> None:
        """From the next scrape on."""
        self._values[node] = value

    def text(self) -> str:
        """The page that is scraped."""
        lines = [f'{METRIC}{{instance="{node}"}} {value}' for node, value in self._values.items()]
        return "\n".join([f"# TYPE {METRIC} gauge", *lines, ""])


class Prometheus:
    """Prometheus and an exporter with its gauges, running inside its ``with`` block."""

    child: Child

    def __init__(self, directory: Path, gauges: Mapping[str, float]) -> None:
        self._binary = require()
        self._directory = directory / "prometheus"
        self._directory.mkdir()
        self.gauges = Gauges(gauges)
        self.port = free_port()

    def __enter__(self) -> Self:
        """Start both, and return when every gauge can be queried."""
        self._exporter = _exporter(self.gauges)
        config = {
            "global": {"scrape_interval": "250ms", "scrape_timeout": "250ms"},
            "scrape_configs": [
                {
                    "job_name": "nodes",
                    "honor_labels": True,
                    "static_configs": [{"targets": [f"127.0.0.1:{self._exporter.server_port}"]}],
                }
            ],
        }
        # JSON is YAML.
        (self._directory / "prometheus.yml").write_text(json.dumps(config))
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop both."""
        self.kill()
        self._exporter.shutdown()
        self._exporter.server_close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start Prometheus, at the same address each time."""
        self.child = Child(
            "prometheus",
            [
                self._binary,
                f"--config.file={self._directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            log=self._directory / "prometheus.log",
        )
        self.child.wait_until(lambda: bool(self.query(METRIC)), READY_SECONDS)

    def kill(self) -> None:
        """End Prometheus; the exporter stays."""
        self.child.stop()

    def set(self, node: str, value: float) -> None:
        """Set a gauge, and return when Prometheus knows."""
        self.gauges.set(node, value)
        wait_until(lambda: self.query(METRIC).get(node) == value, 30, what=f"{node} is {value}")

    def query(self, text: str) -> dict[str, float]:
        """The result by instance; empty while nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", f"/api/v1/query?query={text}")
            found: Any = json.loads(connection.getresponse().read())
        except (OSError, ValueError):
            return {}
        finally:
            connection.close()
        series = found.get("data", {}).get("result", [])
        return {each["metric"]["instance"]: float(each["value"][1]) for each in series}


def _exporter(gauges: Gauges) -> http.server.ThreadingHTTPServer:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = gauges.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
