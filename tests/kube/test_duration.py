"""Durations as Kubernetes writes them."""

import pytest

from bayplan.kube.duration import Duration, decode_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300ms", 0.3), ("5s", 5), ("2m", 120), ("1h30m", 5400), ("1.5s", 1.5), ("1m0.5s", 60.5)],
)
def test_reading(text: str, seconds: float) -> None:
    assert Duration(text).seconds == pytest.approx(seconds)
    assert repr(Duration(text)) == f"Duration({text!r})"


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-5s", "5d", "5s!", "x5s", "1e3s", "5S", ".5s"])
def test_what_is_no_duration_is_told_what_one_looks_like(text: str) -> None:
    with pytest.raises(ValueError, match="such as 300ms, 5s or 2m"):
        Duration(text)


@pytest.mark.parametrize("text", ["0s", "0ms", "0h0m"])
def test_zero_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="above zero"):
        Duration(text)


def test_a_number_without_a_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="text with a unit, such as 5s; got 5"):
        decode_duration(Duration, 5)


def test_other_types_are_not_its_business() -> None:
    with pytest.raises(NotImplementedError, match="int"):
        decode_duration(int, "5s")
