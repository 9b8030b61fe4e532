"""Amounts as people write them."""

import pytest

from bayplan.kube.written import unit_of, written

GI = 2**30


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        pytest.param(1500, "cpu", "1500m", id="CPU"),
        pytest.param(-50, "cpu", "-50m", id="less than nothing is left"),
        pytest.param(16 * GI, "bytes", "16Gi", id="whole gibibytes"),
        pytest.param(3 * GI // 2, "bytes", "1.5Gi", id="half of one"),
        pytest.param(16_786_681_856, "bytes", "15.63Gi", id="about so many"),
        pytest.param(16 * GI - 1, "bytes", "17179869183", id="a byte less than whole"),
        pytest.param(16 * GI - 4 * 2**20 + 100, "bytes", "16773120.1Ki", id="almost whole"),
        pytest.param(-2 * GI, "bytes", "-2Gi", id="too much is taken"),
        pytest.param(512, "bytes", "512", id="a few bytes"),
        pytest.param(0, "bytes", "0", id="nothing"),
    ],
)
def test_an_amount_has_its_unit(value: int, unit: str, text: str) -> None:
    assert written(value, unit) == text


def test_a_resource_says_what_its_numbers_count() -> None:
    resources = ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "pods", "example.com/gpu"]

    assert [unit_of(each) for each in resources] == ["cpu", "bytes", "bytes", "bytes", "", ""]
