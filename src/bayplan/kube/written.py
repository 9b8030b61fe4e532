"""Amounts as people write them: ``500m`` of CPU, ``1.5Gi`` of memory."""

BINARY = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_IN_BYTES = ("memory", "ephemeral-storage")

CPU, BYTES = "cpu", "bytes"
UNITS = frozenset({CPU, BYTES})


def unit_of(resource: str) -> str:
    """The unit of a resource's numbers, for `written`; ``""`` for plain numbers."""
    if resource == CPU:
        return CPU
    return BYTES if resource in _IN_BYTES or resource.startswith("hugepages-") else ""


def written(value: float, unit: str) -> str:
    """The amount with its unit."""
    if unit == CPU:
        return f"{value:.0f}m"
    for suffix, size in BINARY:
        number = value / size
        short = f"{number:.2f}".rstrip("0").rstrip(".")
        # "16Gi needed, 16Gi free" would be confusing if a byte is missing: only exact values are shown as
        # whole.
        if abs(number) >= 1 and ("." in short or number == int(number)):
            return f"{short}{suffix}"
    return f"{value:.0f}"
