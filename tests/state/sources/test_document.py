"""Documents: three shapes, a path into them, and files that are no files."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bayplan.snapshot.bynode import by_field
from bayplan.state.sources import document as document_module
from bayplan.state.sources.document import FileDocument, Shape, WebDocument
from bayplan.state.sources.http import SourceError, SourceHttp
from tests.client.serving import serving


@pytest.mark.parametrize(
    ("shape", "document", "fields"),
    [
        pytest.param(Shape(), {"a": 1.5}, {"": {"a": 1.5}}, id="a number a node"),
        pytest.param(
            Shape(),
            {"a": {"price": 1.5, "spot": True}, "b": {"price": 2}},
            {"price": {"a": 1.5, "b": 2}, "spot": {"a": True}},
            id="several values a node",
        ),
        pytest.param(
            Shape(key="host"),
            [{"host": "a", "price": 1}, {"host": "b", "price": None}],
            {"price": {"a": 1}},
            id="a list, with null for no value",
        ),
        pytest.param(Shape(items="data.nodes"), {"data": {"nodes": {"a": 1}}}, {"": {"a": 1}}, id="a path"),
        pytest.param(Shape(), {"a": None, "b": {"x": None}}, {}, id="null is no value"),
    ],
)
def test_shapes(shape: Shape, document: Any, fields: dict[str, Any]) -> None:
    assert by_field(shape.values(document)) == fields


@pytest.mark.parametrize(
    ("shape", "document", "said"),
    [
        pytest.param(
            Shape(items="data.nods"),
            {"data": {"nodes": {}}},
            "no 'nods' in the document; did you mean 'nodes'",
            id="a path that leads nowhere",
        ),
        pytest.param(Shape(items="a.b"), {"a": 1}, "no 'b' in the document", id="a path through a number"),
        pytest.param(Shape(), [{"price": 1}], "an item has no 'name' that names its node", id="nameless"),
        pytest.param(Shape(), 5, "want an object or a list, got int", id="a number"),
    ],
)
def test_what_cannot_be_read_is_said(shape: Shape, document: Any, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        shape.values(document)


@pytest.mark.parametrize(
    ("nodes", "aside"),
    [pytest.param(5000, False, id="of 5,000 nodes"), pytest.param(50_000, True, id="very many")],
)
async def test_a_long_list_is_not_read_on_the_event_loop(
    nodes: int, aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()

    def noted(_: Shape, item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        threads.add(threading.current_thread())
        return item["name"], {}

    monkeypatch.setattr(Shape, "_item", noted)
    found = await Shape().read([{"name": f"n{number}"} for number in range(nodes)])

    assert len(found) == nodes
    assert [thread is not threading.main_thread() for thread in threads] == [aside]


async def test_a_web_document_is_json() -> None:
    async def prices(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"nodes": [{"name": "a", "price": 2}]})

    async with serving(prices) as url:
        http = SourceHttp()
        try:
            assert await WebDocument(url, Shape(items="nodes")).fetch(http) == {"a": {"price": 2}}
        finally:
            await http.close()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("prices.yaml", "node-a: {price: 2}\n", id="YAML"),
        pytest.param("prices.json", '{"node-a": {"price": 2}}', id="JSON"),
        pytest.param("prices", '{"node-a": {"price": 2}}', id="JSON under any name"),
    ],
)
async def test_a_file_is_read_each_time(tmp_path: Path, name: str, text: str) -> None:
    source = FileDocument(tmp_path / name, Shape())
    with pytest.raises(SourceError, match="No such file"):
        await source.fetch(SourceHttp())

    (tmp_path / name).write_text(text)
    assert await source.fetch(SourceHttp()) == {"node-a": {"price": 2}}
    (tmp_path / name).write_text(text.replace("2", "3"))
    assert await source.fetch(SourceHttp()) == {"node-a": {"price": 3}}


async def test_an_empty_file_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("")

    assert await FileDocument(tmp_path / "prices.yaml", Shape()).fetch(SourceHttp()) == {}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("x.yaml", "a: [1", "not valid YAML", id="broken YAML"),
        pytest.param("x.yaml", "a: 1\na: 2\n", "given twice", id="a node twice"),
        pytest.param("x.json", "{", r"x\.json: ", id="broken JSON"),
    ],
)
async def test_a_broken_file_is_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(SourceError, match=said):
        await FileDocument(tmp_path / name, Shape()).fetch(SourceHttp())


async def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(SourceError, match="is no file"):
        await FileDocument(tmp_path / "pipe", Shape()).fetch(SourceHttp())


async def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_module, "_MAX_FILE_BYTES", 10)
    (tmp_path / "x.yaml").write_text("a: 1" + " " * 10)

    with pytest.raises(SourceError, match="larger than 10 bytes"):
        await FileDocument(tmp_path / "x.yaml", Shape()).fetch(SourceHttp())
