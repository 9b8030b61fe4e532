"""Quantities become exactly the integers that Kubernetes makes of them."""

import math
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.kube.quantity import INT64_MAX, QuantityError, amount, milli, units

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


def rounded_up(value: Fraction) -> int:
    """Away from zero, and no further than an int64 reaches."""
    size = min(math.ceil(abs(value)), INT64_MAX)
    return -size if value < 0 else size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0", 0, id="nothing"),
        pytest.param("12", 12, id="a plain number"),
        pytest.param("+12", 12, id="a plus sign"),
        pytest.param("-12", -12, id="a minus sign"),
        pytest.param("007", 7, id="leading zeros"),
        pytest.param("1.5", 2, id="a decimal is rounded up"),
        pytest.param(".5", 1, id="a leading dot"),
        pytest.param("5.", 5, id="a trailing dot"),
        pytest.param("-1.5", -2, id="rounding goes away from zero"),
        pytest.param("1n", 1, id="a nano is not nothing"),
        pytest.param("1000000000n", 1, id="nano"),
        pytest.param("2000000u", 2, id="micro"),
        pytest.param("3000m", 3, id="milli"),
        pytest.param("3001m", 4, id="milli rounded up"),
        pytest.param("4k", 4 * 10**3, id="kilo"),
        pytest.param("5M", 5 * 10**6, id="mega"),
        pytest.param("6G", 6 * 10**9, id="giga"),
        pytest.param("7T", 7 * 10**12, id="tera"),
        pytest.param("8P", 8 * 10**15, id="peta"),
        pytest.param("9E", 9 * 10**18, id="exa"),
        pytest.param("4Ki", 4 * 2**10, id="kibi"),
        pytest.param("5Mi", 5 * 2**20, id="mebi"),
        pytest.param("1.5Gi", 3 * 2**29, id="one and a half gibi"),
        pytest.param("7Ti", 7 * 2**40, id="tebi"),
        pytest.param("7Pi", 7 * 2**50, id="pebi"),
        pytest.param("7Ei", 7 * 2**60, id="exbi"),
        pytest.param("2e3", 2000, id="a small exponent sign"),
        pytest.param("2E3", 2000, id="a capital exponent sign"),
        pytest.param("2e+3", 2000, id="a signed exponent"),
        pytest.param("2500e-3", 3, id="a negative exponent is rounded up"),
        pytest.param("1E", 10**18, id="a capital E alone is exa"),
        pytest.param("1E3", 1000, id="a capital E with digits is an exponent"),
        pytest.param("1.5e1", 15, id="decimals with an exponent"),
        pytest.param("9223372036854775807", INT64_MAX, id="the largest int64"),
        pytest.param("9223372036854775808", INT64_MAX, id="one more stays the largest int64"),
        pytest.param("8Ei", INT64_MAX, id="too many exbi are capped"),
        pytest.param("-100E", -INT64_MAX, id="the cap holds below zero too"),
    ],
)
def test_units_of(text: str, expected: int) -> None:
    assert units(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("100m", 100, id="milli are counted as they are"),
        pytest.param("0.1", 100, id="a tenth of a core"),
        pytest.param("2", 2000, id="two cores"),
        pytest.param("1n", 1, id="the smallest amount is one milli"),
        pytest.param("100001u", 101, id="micro are rounded up"),
        pytest.param("1e-30", 1, id="next to nothing is one milli"),
        pytest.param("9E", INT64_MAX, id="too many milli are capped"),
    ],
)
def test_milli_of(text: str, expected: int) -> None:
    assert milli(text) == expected


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        pytest.param(4, 4000, id="a whole number, as YAML by hand has it"),
        pytest.param(0.5, 500, id="a float, as YAML by hand has it"),
        pytest.param(1e16, INT64_MAX, id="a float that Python writes with an exponent"),
        pytest.param(1e-7, 1, id="a float that Python writes with a negative exponent"),
    ],
)
def test_numbers_are_read_like_their_text(quantity: float, expected: int) -> None:
    assert milli(quantity) == expected


def test_only_cpu_is_counted_in_milli() -> None:
    assert amount("cpu", "1") == 1000
    assert amount("memory", "1") == 1
    assert amount("example.com/cpu", "1") == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing at all"),
        pytest.param(" ", id="a blank"),
        pytest.param(".", id="only a dot"),
        pytest.param("+", id="only a sign"),
        pytest.param("Ki", id="only a suffix"),
        pytest.param("--1", id="two signs"),
        pytest.param("1.2.3", id="two dots"),
        pytest.param(" 1", id="a leading blank"),
        pytest.param("1 ", id="a trailing blank"),
        pytest.param("1\n", id="a trailing line end"),
        pytest.param("1 Gi", id="a blank before the suffix"),
        pytest.param("1K", id="a capital K alone"),
        pytest.param("1ki", id="a small k before the i"),
        pytest.param("1GB", id="bytes spelled out"),
        pytest.param("1e", id="a small e without digits"),
        pytest.param("1e+", id="an exponent without digits"),
        pytest.param("1e1.5", id="a broken exponent"),
        pytest.param("1e3Ki", id="an exponent and a suffix"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("1_000", id="an underscore"),
        pytest.param("1,5", id="a comma"),
        pytest.param("٣", id="digits of another script"),
        pytest.param("NaN", id="not a number"),
        pytest.param("inf", id="infinity"),
        pytest.param("9" * 101, id="more digits than anyone needs"),
    ],
)
def test_refuses(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity: want a number with an optional suffix"):
        units(text)


@pytest.mark.parametrize(
    "quantity",
    [
        pytest.param(True, id="a bool"),
        pytest.param(math.nan, id="a float that is not a number"),
        pytest.param(math.inf, id="an infinite float"),
    ],
)
def test_refuses_values_that_are_no_quantity(quantity: float) -> None:
    with pytest.raises(QuantityError, match=r"such as 250m, 1\.5, 2e3, 512Mi or 4G"):
        units(quantity)


def test_the_text_that_is_wrong_is_named() -> None:
    with pytest.raises(QuantityError, match="'4 cores' is not a quantity"):
        milli("4 cores")


@pytest.mark.alone
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1e999999999", INT64_MAX, id="a billion digits before the dot"),
        pytest.param("1e-999999999", 1, id="a billion digits after the dot"),
        pytest.param("0e999999999", 0, id="nothing, a billion times"),
        pytest.param("-1e9999999999", -INT64_MAX, id="below zero"),
    ],
)
def test_hostile_exponents_cost_nothing(text: str, expected: int) -> None:
    start = time.perf_counter()

    assert units(text) == expected

    assert time.perf_counter() - start < 0.1


@st.composite
def quantities(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A text, and the exact number that it stands for."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    digits = st.text("0123456789", max_size=22)
    whole, fraction = draw(st.tuples(digits, digits).filter(any))
    number = Fraction(int(whole + fraction or "0"), 10 ** len(fraction)) * (-1 if sign == "-" else 1)
    dot = "." if fraction else draw(st.sampled_from(["", "."]))
    if draw(st.booleans()):
        exponent = draw(st.integers(-40, 40))
        mark = draw(st.sampled_from(["e", "E"])) + draw(st.sampled_from(["", "+"] if exponent >= 0 else [""]))
        return f"{sign}{whole}{dot}{fraction}{mark}{exponent}", number * Fraction(10) ** exponent
    suffix = draw(st.sampled_from(list(SUFFIXES)))
    return f"{sign}{whole}{dot}{fraction}{suffix}", number * SUFFIXES[suffix]


@settings(deadline=None, max_examples=300)
@given(quantities())
def test_every_quantity_is_its_exact_fraction_rounded_up(quantity: tuple[str, Fraction]) -> None:
    text, value = quantity

    assert units(text) == rounded_up(value)
    assert milli(text) == rounded_up(value * 1000)


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=30))
def test_any_text_is_a_number_or_a_quantity_error(text: str) -> None:
    try:
        said = str(units(text))
    except QuantityError as error:
        said = str(error)

    assert said.lstrip("-").isdigit() or said.startswith(f"{text!r} is not a quantity")
