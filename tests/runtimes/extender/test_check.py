"""A configuration is checked where it is written, which is seldom the place where it runs."""

from pathlib import Path

import pytest

from bayplan.client.errors import ConnectError
from bayplan.config.flags import Flags
from bayplan.config.load import ConfigError
from bayplan.runtimes.extender.check import check

SOUND = "import bayplan\n\n\n@bayplan.filter\ndef f(pod, node):\n    return None\n"


@pytest.fixture(autouse=True)
def no_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


def configuration(folder: Path, *, source: str, code: str = SOUND, more: str = "") -> Path:
    (folder / "policy.py").write_text(code)
    path = folder / "bayplan.yaml"
    path.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies: [{use: policy.py}]\n"
        f"cluster:\n  source: {source}\n{more}"
    )
    return path


def test_what_will_run_in_a_pod_is_checked_without_its_cluster(tmp_path: Path) -> None:
    lease = "extender: {lease: {use: always}}\n"

    report = check([], Flags(config=configuration(tmp_path, source="in-cluster", more=lease)))

    assert report.problems == []
    assert report.done == "every hook ran on 0, 1 and 3 nodes, for a plain pod"
    assert [hint for hint in report.hints if "this is no pod" in hint and "--snapshot" in hint]


def test_what_will_run_in_a_pod_may_still_be_wrong(tmp_path: Path) -> None:
    config = configuration(tmp_path, source="in-cluster", code=SOUND.replace("None", "1 / 0"))

    assert "ZeroDivisionError" in check([], Flags(config=config)).problems[0]


def test_other_settings_are_looked_at_as_well(tmp_path: Path) -> None:
    short = "extender: {lease: {use: always, duration: 1s}}\n"

    with pytest.raises(ConfigError, match="lease"):
        check([], Flags(config=configuration(tmp_path, source="in-cluster", more=short)))


def test_who_says_that_this_is_a_pod_hears_that_it_is_none(tmp_path: Path) -> None:
    config = configuration(tmp_path, source="kubeconfig")

    with pytest.raises(ConnectError, match="not in a cluster"):
        check([], Flags(config=config, in_cluster=True))


def test_a_pod_without_a_service_account_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")

    with pytest.raises(ConnectError, match=r"ca\.crt"):
        check([], Flags(config=configuration(tmp_path, source="in-cluster")))


def test_a_kubeconfig_that_is_not_there_is_an_error_that_names_the_other_way(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"none: No such file.*--kubeconfig FILE; or .*--snapshot FILE"):
        check([], Flags(config=configuration(tmp_path, source="kubeconfig")))
