"""Label selectors mean what they mean in Kubernetes."""

from typing import Any

import msgspec
import pytest

from bayplan.kube.selector import LabelSelector

LABELS = {"app": "web", "tier": "front"}


def selector(**parts: Any) -> LabelSelector:
    return msgspec.convert(parts, LabelSelector)


def expression(operator: str, key: str, *values: str) -> LabelSelector:
    return selector(matchExpressions=[{"key": key, "operator": operator, "values": list(values)}])


@pytest.mark.parametrize(
    ("wanted", "selected"),
    [
        pytest.param(selector(), True, id="an empty selector matches everything"),
        pytest.param(selector(matchLabels={"app": "web"}), True, id="a label that is there"),
        pytest.param(selector(matchLabels={"app": "db"}), False, id="a label with another value"),
        pytest.param(selector(matchLabels={"zone": ""}), False, id="an empty value is not a missing label"),
        pytest.param(
            selector(matchLabels={"app": "web", "tier": "back"}), False, id="every label must match"
        ),
        pytest.param(expression("In", "app", "web", "api"), True, id="In one of the values"),
        pytest.param(expression("In", "app", "api"), False, id="In none of the values"),
        pytest.param(expression("In", "zone", "a"), False, id="In without the label"),
        pytest.param(expression("NotIn", "app", "api"), True, id="NotIn any of the values"),
        pytest.param(expression("NotIn", "app", "web"), False, id="NotIn with the value"),
        pytest.param(expression("NotIn", "zone", "a"), True, id="NotIn without the label"),
        pytest.param(expression("Exists", "app"), True, id="Exists with the label"),
        pytest.param(expression("Exists", "zone"), False, id="Exists without the label"),
        pytest.param(expression("DoesNotExist", "zone"), True, id="DoesNotExist without the label"),
        pytest.param(expression("DoesNotExist", "app"), False, id="DoesNotExist with the label"),
        pytest.param(
            selector(matchLabels={"app": "web"}, matchExpressions=[{"key": "zone", "operator": "Exists"}]),
            False,
            id="labels and expressions must both match",
        ),
    ],
)
def test_matches(wanted: LabelSelector, selected: bool) -> None:
    assert wanted.matches(LABELS) is selected


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            r"In needs values \(key 'a'\).*matchExpressions\[0\]",
            id="In without values",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
            r"Exists takes no values \(key 'a'\)",
            id="Exists with values",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["x"]}]},
            "Invalid enum value 'Like'",
            id="an unknown operator",
        ),
        pytest.param({"matchLabel": {}}, "unknown field `matchLabel`", id="a misspelled field"),
        pytest.param({"matchLabels": {"a": 1}}, r"Expected `str`, got `int`", id="a number as a label"),
    ],
)
def test_refuses(parts: dict[str, Any], complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        msgspec.convert(parts, LabelSelector)
