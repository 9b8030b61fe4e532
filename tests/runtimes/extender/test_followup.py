"""The request that follows a filter, made of the filter's own bytes."""

import json
from collections.abc import Callable

import pytest

from bayplan.runtimes.extender.assemble import quoted
from bayplan.runtimes.extender.followup import followup, is_followup


def test_it_is_the_same_with_the_names_that_passed() -> None:
    body = b'{"Pod":{"metadata":{"name":"web"}},"Nodes":null,"NodeNames":["a","b","c"]}'

    assert followup(body, quoted(["a", "c"])) == body.replace(b'"b",', b"")


def test_a_pod_that_speaks_of_names_changes_nothing() -> None:
    note = json.dumps('"NodeNames":["x"]}')
    body = f'{{"Pod":{{"metadata":{{"annotations":{{"note":{note}}}}}}},"NodeNames":["a","b"]}}'.encode()

    assert json.loads(followup(body, quoted(["b"])))["NodeNames"] == ["b"]
    assert json.loads(followup(body, quoted(["b"])))["Pod"] == json.loads(body)["Pod"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"NodeNames":["a"],"Pod":{}}', id="names first"),
        pytest.param(
            b'{"Pod":{"NodeNames":["b"]},"NodeNames":["a"]}', id="a list of that name in a pod before it"
        ),
        pytest.param(b'{"NodeNames":["a"],"Pod":{"NodeNames":["b"]}}', id="a list in the pod"),
        pytest.param(b'{"NodeNames":["a"],"Pod":{"NodeNames":["b"],"more":[]}', id="a list after it"),
        pytest.param(b'{"NodeNames":["a]"]}', id="a bracket in a name"),
        pytest.param(b'{"NodeNames": ["a"]}', id="with spaces"),
        pytest.param(b'{"NodeNames":["a"]}\n', id="with a line break at the end"),
        pytest.param(b'{"Nodes":{"items":[]}}', id="without names"),
        pytest.param(b"]}", id="next to nothing"),
        pytest.param(b'"NodeNames":["a"]}', id="nothing before it"),
        pytest.param(b'{"nodenames":["a"],"x\\"NodeNames":["q"]}', id="a key that ends so"),
    ],
)
def test_nothing_is_said_of_a_request_in_other_words(body: bytes) -> None:
    assert followup(body, quoted(["a"])) == b""


@pytest.mark.parametrize(
    ("change", "follows"),
    [
        pytest.param(lambda body: body, True, id="the very bytes"),
        pytest.param(lambda body: body.replace(b'"a"', b'"b"'), False, id="another name of the same length"),
        pytest.param(lambda body: body.replace(b'"a",', b""), False, id="fewer names"),
        pytest.param(lambda body: body.replace(b'"p"', b'"q"'), False, id="another pod"),
        pytest.param(lambda body: body[:-1] + b" ", False, id="another end"),
        pytest.param(lambda _: b"", False, id="nothing"),
    ],
)
def test_a_request_that_follows_is_known_by_every_byte(
    change: Callable[[bytes], bytes], follows: bool
) -> None:
    body = b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b","c"]}'
    expected = followup(body, quoted(["a", "c"]))

    assert is_followup(change(expected), body, quoted(["a", "c"])) is follows


def test_nothing_follows_a_request_that_cannot_be_predicted() -> None:
    body = b'{"NodeNames":["a","b"],"Nodes":null}'

    assert not is_followup(body, body, quoted(["a", "b"]))
