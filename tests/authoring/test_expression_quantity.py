"""Quantities in expressions: the functions that Kubernetes has, with its results."""

from typing import Any

import pytest

from bayplan.authoring.cel.compile import CompileError, compile_expression
from bayplan.authoring.cel.quantity import FUNCTIONS


def value(text: str) -> Any:
    return compile_expression(text, ("pod",)).program.eval(data={"pod": {}}).value()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("quantity('1') == quantity('1000m')", True, id="equal, however it is written"),
        pytest.param("quantity('1Ki') == quantity('1k')", False, id="1024 is not 1000"),
        pytest.param("quantity('1') in [quantity('1e0')]", True, id="one of a list"),
        pytest.param("quantity('500m').isLessThan(quantity('1'))", True, id="less"),
        pytest.param("quantity('9').isLessThan(quantity('10'))", True, id="by value, not by digits"),
        pytest.param("quantity('1Gi').isGreaterThan(quantity('1G'))", True, id="greater"),
        pytest.param("quantity('1').compareTo(quantity('2'))", -1, id="compared, smaller"),
        pytest.param("quantity('2').compareTo(quantity('2000m'))", 0, id="compared, equal"),
        pytest.param("quantity('3').compareTo(quantity('2'))", 1, id="compared, larger"),
        pytest.param("quantity('2k').asInteger()", 2000, id="an integer"),
        pytest.param("quantity('500m').isInteger()", False, id="half is no integer"),
        pytest.param("quantity('9223372036854775807').isInteger()", True, id="the largest integer"),
        pytest.param("quantity('500m').asApproximateFloat()", 0.5, id="a float"),
        pytest.param("quantity('-1m').sign()", -1, id="the sign of less than nothing"),
        pytest.param("quantity('0').sign()", 0, id="the sign of nothing"),
        pytest.param("quantity('1').add(quantity('500m')) == quantity('1.5')", True, id="a sum"),
        pytest.param(
            "quantity('1').add(2).sub(1) == quantity('2')", True, id="whole numbers added and taken"
        ),
        pytest.param("quantity('1').sub(quantity('1m')) == quantity('999m')", True, id="a difference"),
        pytest.param("isQuantity('1.5Gi') && !isQuantity('many') && !isQuantity('')", True, id="is it one"),
        pytest.param(
            "quantity('1n') == quantity('0.1n')", True, id="nothing is finer than a nano, rounded up"
        ),
        pytest.param(
            "[quantity('1'), quantity('2')].map(q, q.add(1).asInteger()) == [2, 3]", True, id="in a list"
        ),
    ],
)
def test_as_in_kubernetes(text: str, expected: Any) -> None:
    assert value(text) == expected


def test_half_is_not_made_an_integer() -> None:
    assert "cannot be an integer; use asApproximateFloat()" in value("quantity('500m').asInteger()")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("quantity('9') < quantity('10')", id="compared as bytes"),
        pytest.param("dyn(quantity('9')) == ''", id="hidden as dyn"),
        pytest.param("quantity('1') + quantity('1')", id="joined as bytes"),
        pytest.param("string(quantity('1')) == '1'", id="turned into text"),
        pytest.param("size(quantity('1')) == 1", id="measured"),
        pytest.param("[quantity('9')].all(q, q < quantity('10'))", id="in a list"),
    ],
)
def test_the_bytes_that_a_quantity_travels_as_are_never_seen(text: str) -> None:
    with pytest.raises(CompileError, match="quantities are compared with isLessThan"):
        compile_expression(text, ("pod",))


@pytest.mark.parametrize("text", ["b'1' == b'1'", "bytes('1') == quantity('1')"])
def test_other_bytes_are_refused(text: str) -> None:
    with pytest.raises(CompileError, match="bytes are not used here"):
        compile_expression(text, ("pod",))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_there_and_wants_its_arguments(name: str) -> None:
    with pytest.raises(CompileError, match=f"'{name}' is not called with so many arguments"):
        compile_expression(f"{name}(pod, pod, pod)", ("pod",))
