"""Amounts as people read them: cores and GiB, not milli-CPU and bytes."""

import math

from bayplan.kube.written import BINARY, BYTES, CPU, unit_of


def amount(column: str, value: float) -> str:
    """The value of a resource, or of a column such as ``cpu.free``."""
    if not math.isfinite(value):
        return str(value)
    counted_in = unit_of(column.rpartition(".")[0] or column)
    if counted_in == CPU:
        return f"{value / 1000:g}"
    if counted_in == BYTES:
        suffix, size = next((step for step in BINARY if abs(value) >= step[1]), ("", 1))
        return f"{value / size:.4g}{suffix}"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
