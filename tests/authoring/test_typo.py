"""Keys that are nearly the one that was meant."""

import pytest

from bayplan.authoring.typo import mistyped

KEY = "example.com/gpu-count"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param([], None, id="nothing is given"),
        pytest.param([KEY], None, id="it is there"),
        pytest.param(["example.com/gpu-counts", KEY], None, id="it is there, and another one"),
        pytest.param(["example.com/gpu-cuont"], "example.com/gpu-cuont", id="letters out of place"),
        pytest.param(["example.com/gpu_count"], "example.com/gpu_count", id="another dash"),
        pytest.param(["example.com/gpucount"], "example.com/gpucount", id="a letter too few"),
        pytest.param(["exmple.com/gpu-count"], "exmple.com/gpu-count", id="in the domain"),
        pytest.param(["example.com/gpu-index"], None, id="another word"),
        pytest.param(["example.org/gpu-count"], None, id="another domain"),
        pytest.param(["gpu-count"], None, id="no domain"),
    ],
)
def test_mistyped(given: list[str], found: str | None) -> None:
    assert mistyped(KEY, given) == found
