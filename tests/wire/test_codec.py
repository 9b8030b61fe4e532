"""Whatever the bytes are, they are a message or a WireError; what is written is what Go reads."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.wire import v1
from bayplan.wire.codec import WireError, decode, decode_nodes, encode

KINDS: list[type[v1.Envelope]] = [v1.ExtenderArgs, v1.ExtenderPreemptionArgs, v1.ExtenderBindingArgs]
CAPTURES = sorted((Path(__file__).parents[1] / "contract" / "captures" / "v1.36.4").glob("*.request.json"))
POD = {"metadata": {"name": "web", "uid": "u-web"}}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def kind_of(capture: Path) -> type[v1.Envelope]:
    verb = capture.name.partition("-")[0].partition(".")[0]
    kinds: dict[str, type[v1.Envelope]] = {
        "preempt": v1.ExtenderPreemptionArgs,
        "bind": v1.ExtenderBindingArgs,
    }
    return kinds.get(verb, v1.ExtenderArgs)


def outcome(body: bytes, kind: type[v1.Envelope]) -> object:
    """The message, with its nodes read too, or the error."""
    try:
        message = decode(body, kind)
        if isinstance(message, v1.ExtenderArgs) and message.nodes and message.nodes.items:
            decode_nodes(message.nodes.items)
    except WireError as error:
        return error
    return message


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """The value with one place in it changed: emptied, replaced, renamed, doubled or gone."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        how = draw(st.sampled_from(["inside", "inside", "inside", "rename", "drop", "add"]))
        if how == "inside":
            return {**value, key: draw(mutated(value[key]))}
        rest = {k: v for k, v in value.items() if k != key}
        if how == "rename":
            return {**rest, draw(st.sampled_from([key.lower(), key.upper(), key.swapcase()])): value[key]}
        return rest if how == "drop" else {**value, draw(st.text(max_size=5)): draw(JSON)}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        row = draw(st.integers(0, len(value) - 1))
        return [*value[:row], draw(mutated(value[row])), *value[row + draw(st.integers(0, 1)) :]]
    return draw(st.none() | JSON)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200), st.sampled_from(KINDS))
def test_any_bytes_are_a_message_or_a_wire_error(body: bytes, kind: type[v1.Envelope]) -> None:
    assert isinstance(outcome(body, kind), kind | WireError)


@settings(deadline=None, max_examples=200)
@given(JSON, st.sampled_from(KINDS))
def test_any_json_is_a_message_or_a_wire_error(value: Any, kind: type[v1.Envelope]) -> None:
    assert isinstance(outcome(json.dumps(value).encode(), kind), kind | WireError)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_recorded_request_with_anything_changed_is_a_message_or_a_wire_error(data: st.DataObject) -> None:
    capture = data.draw(st.sampled_from(CAPTURES))
    value = json.loads(capture.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        value = data.draw(mutated(value))

    assert isinstance(outcome(json.dumps(value).encode(), kind_of(capture)), kind_of(capture) | WireError)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_recorded_request_cut_short_is_a_wire_error(data: st.DataObject) -> None:
    capture = data.draw(st.sampled_from(CAPTURES))
    body = capture.read_bytes()
    cut = body[: data.draw(st.integers(0, len(body) - 1))]

    assert isinstance(outcome(cut, kind_of(capture)), WireError)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_recorded_request_with_a_byte_changed_is_a_message_or_a_wire_error(data: st.DataObject) -> None:
    capture = data.draw(st.sampled_from(CAPTURES))
    body = bytearray(capture.read_bytes())
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    assert isinstance(outcome(bytes(body), kind_of(capture)), kind_of(capture) | WireError)


@pytest.mark.parametrize("capture", [pytest.param(c, id=c.stem) for c in CAPTURES])
def test_a_recorded_request_with_a_null_anywhere_is_a_message_or_a_wire_error(capture: Path) -> None:
    kind = kind_of(capture)

    for changed in _with_one_null(json.loads(capture.read_bytes())):
        assert isinstance(outcome(json.dumps(changed).encode(), kind), kind | WireError)


def _with_one_null(value: Any) -> list[Any]:
    """Every copy of the value that has a null in one of its places."""
    copies: list[Any] = [None]
    if isinstance(value, dict):
        copies += [{**value, key: c} for key, inner in value.items() for c in _with_one_null(inner)]
    if isinstance(value, list):
        copies += [
            [*value[:i], c, *value[i + 1 :]] for i, inner in enumerate(value) for c in _with_one_null(inner)
        ]
    return copies


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 100_000, id="nothing but brackets"),
        pytest.param(b'{"Pod":' * 100_000, id="a pod in a pod in a pod"),
        pytest.param(b'{"Pod":{"unknown":' + DEEP + b"}}", id="in a field that nobody reads"),
        pytest.param(b'{"Nodes":{"items":[' + DEEP + b"]}}", id="in a node"),
        pytest.param(b'{"Nodes":{"metadata":' + DEEP + b"}}", id="in the metadata of the list"),
        pytest.param(b'{"nodes":{"items":[' + DEEP + b"]}}", id="in a node, in another spelling"),
        pytest.param(b'{"unknown":' + DEEP + b"}", id="beside the message"),
    ],
)
def test_deep_nesting_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(WireError):
        decode(body, v1.ExtenderArgs)


@pytest.mark.parametrize(
    ("body", "kind", "complaint"),
    [
        pytest.param(b"", v1.ExtenderArgs, "ExtenderArgs: the body is empty, want JSON", id="no body"),
        pytest.param(
            b" \n", v1.ExtenderArgs, "ExtenderArgs: the body is empty, want JSON", id="a blank body"
        ),
        pytest.param(b"null", v1.ExtenderArgs, "ExtenderArgs: Expected `object`, got `null`", id="null"),
        pytest.param(b"[]", v1.ExtenderArgs, "ExtenderArgs: Expected `object`, got `array`", id="an array"),
        pytest.param(b"{} {}", v1.ExtenderArgs, "trailing characters", id="two messages"),
        pytest.param(b"Pod=web", v1.ExtenderArgs, "JSON is malformed", id="a form"),
        pytest.param(
            b'{"NodeNames":"a"}', v1.ExtenderArgs, r"Expected `array \| null`.*NodeNames", id="a wrong type"
        ),
        pytest.param(
            b'{"NodeNames":["\xff"]}', v1.ExtenderArgs, "ExtenderArgs: 'utf-8' codec", id="not UTF-8"
        ),
        pytest.param(
            b'{"Pod":{"spec":{"priority":' + b"9" * 5000 + b"}}}",
            v1.ExtenderArgs,
            "out of range",
            id="a number of five thousand digits",
        ),
        pytest.param(b"{}", v1.ExtenderBindingArgs, "required field `PodName`", id="a bind of nothing"),
        pytest.param(
            b'{"PodName":"web","PodNamespace":"d","PodUID":"","Node":"a"}',
            v1.ExtenderBindingArgs,
            r"length >= 1.*PodUID",
            id="a bind without a UID",
        ),
    ],
)
def test_errors_say_what_is_wrong(body: bytes, kind: type[v1.Envelope], complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(body, kind)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("pod", "nodes", "nodenames"), id="small letters"),
        pytest.param(("pod", "nodes", "nodeNames"), id="camel case"),
        pytest.param(("POD", "NODES", "NODENAMES"), id="capitals"),
        pytest.param(("Pod", "Nodes", "nodeNames"), id="a mixture"),
    ],
)
def test_arguments_are_read_in_any_spelling(names: tuple[str, str, str]) -> None:
    pod, nodes, node_names = names
    sent = {pod: POD, nodes: None, node_names: ["a", "b"]}
    usual = {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}

    assert decode(json.dumps(sent).encode(), v1.ExtenderArgs) == decode(
        json.dumps(usual).encode(), v1.ExtenderArgs
    )


@pytest.mark.parametrize(
    ("victims", "pods", "uid", "violations"),
    [
        pytest.param("nodenametometavictims", "pods", "uid", "numpdbviolations", id="small letters"),
        pytest.param("nodeNameToMetaVictims", "pods", "uid", "numPDBViolations", id="camel case"),
        pytest.param("NodeNameToMetaVictims", "Pods", "Uid", "NumPdbViolations", id="acronyms as words"),
    ],
)
def test_victims_are_read_in_any_spelling(victims: str, pods: str, uid: str, violations: str) -> None:
    sent = {"pod": POD, victims: {"a": {pods: [{uid: "u-1"}], violations: 3}}}

    message = decode(json.dumps(sent).encode(), v1.ExtenderPreemptionArgs)

    assert message.node_name_to_meta_victims == {
        "a": v1.SentMetaVictims(pods=[v1.MetaPod("u-1")], num_pdb_violations=3)
    }


def test_full_victims_are_read_in_any_spelling() -> None:
    sent = {"pod": POD, "nodeNameToVictims": {"a": {"pods": [POD, None], "numPDBViolations": 1}, "b": None}}
    usual = {"Pod": POD, "NodeNameToVictims": {"a": {"Pods": [POD, None], "NumPDBViolations": 1}, "b": None}}

    assert decode(json.dumps(sent).encode(), v1.ExtenderPreemptionArgs) == decode(
        json.dumps(usual).encode(), v1.ExtenderPreemptionArgs
    )


@pytest.mark.parametrize(
    "uid", [pytest.param("podUID", id="camel case"), pytest.param("poduid", id="small letters")]
)
def test_bindings_are_read_in_any_spelling(uid: str) -> None:
    sent = {"podName": "web", "podNamespace": "shop", uid: "u-web", "node": "a"}

    message = decode(json.dumps(sent).encode(), v1.ExtenderBindingArgs)

    assert message == v1.ExtenderBindingArgs("web", "shop", "u-web", "a")


def test_of_a_name_given_twice_the_last_counts_as_in_go() -> None:
    message = decode(b'{"NodeNames":["old"],"nodenames":["new"]}', v1.ExtenderArgs)

    assert message.node_names == ["new"]


def test_names_that_nobody_knows_are_passed_over() -> None:
    body = b'{"NodeNames":["a"],"Extra":1,"Nodes":{"kind":"NodeList","apiVersion":"v1","items":null}}'

    message = decode(body, v1.ExtenderArgs)

    assert message.node_names == ["a"]
    assert message.nodes == v1.NodeList()


def test_spelling_inside_a_pod_is_fixed() -> None:
    message = decode(b'{"pod":{"Metadata":{"name":"web"}}}', v1.ExtenderArgs)

    assert message.pod is not None
    assert message.pod.name == ""


@pytest.mark.parametrize(
    ("message", "written"),
    [
        pytest.param(
            v1.FilterResult(None, ["a"], {"b": "why"}, {"c": "never"}),
            b'{"Nodes":null,"NodeNames":["a"],"FailedNodes":{"b":"why"},'
            b'"FailedAndUnresolvableNodes":{"c":"never"},"Error":""}',
            id="a filter answer by name",
        ),
        pytest.param(
            v1.FilterResult(v1.NodeList(items=[msgspec.Raw(b'{"a" : 1}')]), None, {}, {}, "no"),
            b'{"Nodes":{"metadata":{},"items":[{"a" : 1}]},"NodeNames":null,"FailedNodes":{},'
            b'"FailedAndUnresolvableNodes":{},"Error":"no"}',
            id="a filter answer with nodes",
        ),
        pytest.param([v1.HostPriority("a", 7)], b'[{"Host":"a","Score":7}]', id="a score"),
        pytest.param([], b"[]", id="no scores"),
        pytest.param(
            v1.ExtenderPreemptionResult({"a": v1.MetaVictims([v1.MetaPod("u")], 2)}),
            b'{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"u"}],"NumPDBViolations":2}}}',
            id="victims",
        ),
        pytest.param(v1.ExtenderBindingResult(), b'{"Error":""}', id="a bind that worked"),
        pytest.param(v1.ExtenderBindingResult("gone"), b'{"Error":"gone"}', id="a bind that did not"),
    ],
)
def test_names_are_written_as_go_spells_them(
    message: v1.Envelope | list[v1.HostPriority], written: bytes
) -> None:
    assert encode(message) == written


VICTIMS = st.builds(
    v1.MetaVictims,
    pods=st.lists(st.builds(v1.MetaPod, uid=st.text()), max_size=3),
    num_pdb_violations=st.integers(-(2**63), 2**63 - 1),
)
ANSWERS = st.builds(
    v1.ExtenderPreemptionResult,
    node_name_to_meta_victims=st.dictionaries(st.text(), VICTIMS, max_size=4),
)


def nulls_in(value: Any) -> int:
    if isinstance(value, dict):
        return sum(nulls_in(inner) for inner in value.values())
    if isinstance(value, list):
        return sum(nulls_in(inner) for inner in value)
    return int(value is None)


@settings(deadline=None, max_examples=200)
@given(ANSWERS)
def test_no_preempt_answer_contains_a_null(answer: v1.ExtenderPreemptionResult) -> None:
    assert nulls_in(json.loads(encode(answer))) == 0


_POD_LIKE = st.none() | st.fixed_dictionaries({}, optional={"UID": st.none() | st.text(max_size=3)})
_VICTIMS_LIKE = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "Pods": st.none() | st.lists(_POD_LIKE, max_size=3),
        "NumPDBViolations": st.none() | st.integers(0, 3),
    },
)
_ANSWER_LIKE = st.fixed_dictionaries(
    {"NodeNameToMetaVictims": st.none() | st.dictionaries(st.sampled_from("ab"), _VICTIMS_LIKE)}
)


@settings(deadline=None, max_examples=300)
@given(JSON | _ANSWER_LIKE)
def test_input_with_a_null_is_no_preempt_answer(value: Any) -> None:
    try:
        written = encode(msgspec.convert(value, v1.ExtenderPreemptionResult))
    except msgspec.ValidationError:
        written = b'{"refused":true}'

    assert nulls_in(json.loads(written)) == 0


ODD_NODES = [
    pytest.param(b'{"metadata" :\t{ "name"\n: "a" }  }', id="blanks everywhere"),
    pytest.param(b'{"metadata":{"name":"\\u0061","x":"\\ud83d\\ude00\\/"}}', id="escaped characters"),
    pytest.param('{"metadata":{"name":"a","x":"Zürich 😀"}}'.encode(), id="characters beyond ASCII"),
    pytest.param(
        b'{"metadata":{"name":"a"},"x":123456789012345678901234567890,"y":1.0,"z":1e400}', id="big numbers"
    ),
    pytest.param(b'{"metadata":{"name":"old","name":"a"},"x":1,"x":2}', id="names given twice"),
    pytest.param(b'{"metadata":{"name":"a"},"x":null,"y":[],"z":{}}', id="nulls and empty values"),
    pytest.param(b'{"z":1,"metadata":{"zz":1,"name":"a"},"b":2}', id="an order of its own"),
]


@pytest.mark.parametrize("node", ODD_NODES)
@pytest.mark.parametrize(
    "spelling", [pytest.param(b"Nodes", id="as Go spells it"), pytest.param(b"nodes", id="in small letters")]
)
def test_odd_nodes_are_echoed_byte_for_byte(node: bytes, spelling: bytes) -> None:
    body = b'{"' + spelling + b'": {"metadata": { }, "items": [' + node + b" , " + node + b"]}}"

    nodes = decode(body, v1.ExtenderArgs).nodes
    assert nodes is not None
    written = encode(v1.FilterResult(nodes, None, {}, {}))

    assert written.startswith(b'{"Nodes":{"metadata":{ },"items":[' + node + b"," + node + b"]}")
    assert [read.name for read in decode_nodes(nodes.items or [])] == ["a", "a"]


@pytest.mark.parametrize(
    ("node", "complaint"),
    [
        pytest.param(b"null", r"Nodes.items\[1\]: Expected `object`, got `null`", id="null"),
        pytest.param(b"{}", r"Nodes.items\[1\]: metadata.name is missing", id="a node without a name"),
        pytest.param(
            b'{"metadata":{"name":1}}', r"Nodes.items\[1\]: Expected `str \| null`", id="a number as a name"
        ),
        pytest.param(b'{"metadata":{"name":"\xff"}}', r"Nodes.items\[1\]: 'utf-8' codec", id="not UTF-8"),
    ],
)
def test_a_node_that_cannot_be_read_is_named_by_its_place(node: bytes, complaint: str) -> None:
    fine = msgspec.Raw(b'{"metadata":{"name":"a"}}')

    with pytest.raises(WireError, match=complaint):
        decode_nodes([fine, msgspec.Raw(node)])
