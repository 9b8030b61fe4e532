"""Tolerations cover taints as Kubernetes decides it."""

import pytest

from bayplan.kube.taint import Taint, Toleration

GPU = Taint(key="gpu", value="a100", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        pytest.param(Toleration(key="gpu", operator="Equal", value="a100"), True, id="the same value"),
        pytest.param(Toleration(key="gpu", value="a100"), True, id="no operator means Equal"),
        pytest.param(
            Toleration(key="gpu", operator="", value="a100"), True, id="an empty operator means Equal"
        ),
        pytest.param(Toleration(key="gpu", value="t4"), False, id="another value"),
        pytest.param(Toleration(key="gpu"), False, id="no value is the empty value"),
        pytest.param(Toleration(key="gpu", operator="Exists"), True, id="Exists takes any value"),
        pytest.param(Toleration(key="disk", operator="Exists"), False, id="another key"),
        pytest.param(Toleration(operator="Exists"), True, id="Exists without a key takes everything"),
        pytest.param(Toleration(key="", operator="Exists", effect=""), True, id="empty texts match any"),
        pytest.param(Toleration(value="a100"), True, id="Equal without a key compares the value"),
        pytest.param(
            Toleration(key="gpu", operator="Exists", effect="NoSchedule"), True, id="the same effect"
        ),
        pytest.param(
            Toleration(key="gpu", operator="Exists", effect="NoExecute"), False, id="another effect"
        ),
        pytest.param(
            Toleration(key="gpu", operator="Matches", value="a100"), False, id="an unknown operator"
        ),
    ],
)
def test_tolerates(toleration: Toleration, covered: bool) -> None:
    assert toleration.tolerates(GPU) is covered


def test_a_missing_value_equals_an_empty_one() -> None:
    assert Toleration(key="x", value="").tolerates(Taint(key="x", effect="NoSchedule"))
    assert Toleration(key="x").tolerates(Taint(key="x", value="", effect="NoSchedule"))


@pytest.mark.parametrize(
    ("operator", "wanted", "value", "covered"),
    [
        pytest.param("Gt", "900", "950", True, id="the taint is above the bar"),
        pytest.param("Gt", "950", "950", False, id="the taint is at the bar, not above"),
        pytest.param("Lt", "900", "850", True, id="the taint is below the bar"),
        pytest.param("Lt", "900", "950", False, id="the taint is not below the bar"),
        pytest.param("Gt", "-5", "-4", True, id="numbers below zero"),
        pytest.param("Gt", "9", "10", True, id="numbers are not compared as text"),
        pytest.param("Gt", "9", "lots", False, id="a taint that is no number"),
        pytest.param("Gt", "few", "10", False, id="a toleration that is no number"),
        pytest.param("Gt", None, "10", False, id="a toleration without a value"),
        pytest.param("Gt", "9", None, False, id="a taint without a value"),
        pytest.param("Gt", "9", "9999999999999999999", False, id="a taint beyond int64"),
        pytest.param("Lt", "9999999999999999999", "9", False, id="a toleration beyond int64"),
        pytest.param("Gt", "9", "1_000", False, id="Go reads no underscores"),
        pytest.param("Gt", "9", " 10", False, id="Go reads no blanks"),
    ],
)
def test_compares_numbers(operator: str, wanted: str | None, value: str | None, covered: bool) -> None:
    taint = Taint(key="sla", value=value, effect="NoSchedule")

    assert Toleration(key="sla", operator=operator, value=wanted).tolerates(taint) is covered
