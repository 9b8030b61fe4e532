"""The extender of the tutorials: Flask, its own server, dictionaries, a loop over the nodes.

    python sample.py PORT NODES.json

The tutorials know full nodes only; names are looked up in the nodes of the file.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from flask import Flask, Response, jsonify, request  # type: ignore[import-not-found]

app = Flask(__name__)
known: dict[str, dict[str, str]] = {}


def labels_by_name(body: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The nodes that were sent, with their labels."""
    if body.get("Nodes"):
        items = body["Nodes"]["items"]
        return {node["metadata"]["name"]: node["metadata"].get("labels", {}) for node in items}
    return {name: known[name] for name in body["NodeNames"]}


def filter() -> Response:
    """Nodes with an SSD pass."""
    body = request.get_json()
    labels = labels_by_name(body)
    passed = [name for name in labels if labels[name].get("disk") == "ssd"]
    failed = {name: "node has no SSD" for name in labels if labels[name].get("disk") != "ssd"}
    result: dict[str, Any] = {"Nodes": None, "NodeNames": None, "FailedNodes": failed, "Error": ""}
    if body.get("Nodes"):
        items = [node for node in body["Nodes"]["items"] if node["metadata"]["name"] not in failed]
        result["Nodes"] = {"metadata": {}, "items": items}
    else:
        result["NodeNames"] = passed
    return jsonify(result)


def prioritize() -> Response:
    """A score by a label."""
    labels = labels_by_name(request.get_json())
    scores = [{"Host": name, "Score": int(labels[name]["example.com/points"])} for name in labels]
    return jsonify(scores)


def healthz() -> str:
    """Whether it is there."""
    return "ok"


app.add_url_rule("/filter", view_func=filter, methods=["POST"])
app.add_url_rule("/prioritize", view_func=prioritize, methods=["POST"])
app.add_url_rule("/healthz", view_func=healthz)

if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    for item in json.loads(Path(sys.argv[2]).read_text())["items"]:
        known[item["metadata"]["name"]] = item["metadata"]["labels"]
    app.run(host="127.0.0.1", port=int(sys.argv[1]))
