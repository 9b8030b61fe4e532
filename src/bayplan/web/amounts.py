"""Amounts as people read them: cores and GiB, not milli-CPU and bytes."""

import math

_BINARY = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_IN_BYTES = ("memory", "ephemeral-storage")


def amount(column: str, value: float) -> str:
    """The value of a resource, or of a column such as ``cpu.free``."""
    if not math.isfinite(value):
        return str(value)
    resource = column.rpartition(".")[0] or column
    if resource == "cpu":
        return f"{value / 1000:g}"
    if resource in _IN_BYTES or resource.startswith("hugepages-"):
        unit, size = next((step for step in _BINARY if abs(value) >= step[1]), ("", 1))
        return f"{value / size:.4g}{unit}"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
