"""Which versions of Kubernetes are known, and how they are written."""

from __future__ import annotations

import pytest

from bayplan.install.versions import KubernetesVersion, VersionError, parse_version


@pytest.mark.parametrize(
    ("text", "minor", "patch"),
    [
        pytest.param("1.36", 36, 0, id="a minor version"),
        pytest.param("v1.25.16", 25, 16, id="a patch, as kubectl writes it"),
        pytest.param("1.38", 38, 0, id="the newest"),
        pytest.param("v1.31.4-gke.100", 31, 4, id="of a cloud"),
        pytest.param("1.30.2+k3s1", 30, 2, id="of a distribution"),
    ],
)
def test_a_version_is_read(text: str, minor: int, patch: int) -> None:
    assert parse_version(text) == KubernetesVersion(minor, patch)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("1.24", r"1\.25 to 1\.38", id="too old"),
        pytest.param("1.39", r"1\.25 to 1\.38", id="not known yet"),
        pytest.param("2.0", "write 1.36", id="another major version"),
        pytest.param("latest", "write 1.36", id="no version"),
    ],
)
def test_a_version_that_is_not_known_is_refused(text: str, said: str) -> None:
    with pytest.raises(VersionError, match=said):
        parse_version(text)
