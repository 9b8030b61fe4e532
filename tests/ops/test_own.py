"""Metrics that policies make: they are scraped, they end with their policies, they break nothing."""

import sys
from pathlib import Path

import pytest
import yaml
from prometheus_client import REGISTRY

from bayplan.authoring.editions import Edition, anew
from bayplan.authoring.load import load
from bayplan.config.flags import Flags, load_all
from bayplan.ops.metrics import Metrics
from bayplan.testing import make_cluster, make_pod, run_policy

HEAD = "import bayplan\nfrom prometheus_client import REGISTRY, Counter, Gauge\n"
RULE = "\n@bayplan.filter\ndef rule(node):\n    return None\n"


def imported(folder: Path, text: str, **files: str) -> Edition:
    (folder / "policy.py").write_text(HEAD + text + RULE)
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content)
    with anew() as edition:
        load(str(folder / "policy.py"))
    return edition


def scraped(edition: Edition) -> list[str]:
    metrics = Metrics(version="test")
    metrics.edition = edition
    return metrics.render().decode().splitlines()


def test_each_edition_has_its_own(tmp_path: Path) -> None:
    first = imported(tmp_path, "SEEN = Gauge('own_seen', 'Seen.')\nSEEN.set(1)\n")
    second = imported(tmp_path, "SEEN = Gauge('own_seen', 'Seen.')\nSEEN.set(2)\n")
    third = imported(tmp_path, "")

    assert "own_seen 1.0" in scraped(first)
    assert "own_seen 2.0" in scraped(second)
    assert "own_seen" not in "".join(scraped(third))
    assert REGISTRY.get_sample_value("own_seen") is None


def test_a_file_that_a_configuration_names_twice_has_its_metrics_once(tmp_path: Path) -> None:
    text = """
SEEN = Counter("own_teams", "Pods by team.", ["team"])

class Args(bayplan.Args):
    team: str

@bayplan.policy
class Team:
    def __init__(self, args: Args):
        self.team = args.team

    @bayplan.filter
    def rule(self, pod, nodes):
        SEEN.labels(self.team).inc()
"""
    (tmp_path / "policy.py").write_text(HEAD + text)
    entries = [{"use": "policy.py:Team", "name": team, "args": {"team": team}} for team in ("red", "blue")]
    config = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration", "policies": entries}
    (tmp_path / "bayplan.yaml").write_text(yaml.safe_dump(config))

    loaded = load_all([], Flags(config=tmp_path / "bayplan.yaml"))
    for policy in loaded.policies:
        run_policy([policy], make_pod(), make_cluster(["node"]))

    assert [policy.name for policy in loaded.policies] == ["red", "blue"]
    lines = scraped(loaded.edition)
    assert 'own_teams_total{team="red"} 1.0' in lines
    assert 'own_teams_total{team="blue"} 1.0' in lines


def test_one_that_a_function_or_a_file_beside_makes_is_the_policys_too(tmp_path: Path) -> None:
    beside = "from prometheus_client import Gauge\n\ndef make():\n    return Gauge('own_made', 'Made.')\n"
    for _ in range(2):
        edition = imported(tmp_path, "import making\nmaking.make().set(3)\n", making=beside)

        assert "own_made 3.0" in scraped(edition)


def test_what_a_library_makes_when_it_is_imported_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "installed"
    library.mkdir()
    (library / "a_measuring_library.py").write_text(
        "from prometheus_client import Gauge\nBUSY = Gauge('own_library_busy', 'Busy.')\n"
    )
    monkeypatch.syspath_prepend(library)
    try:
        for _ in range(2):
            edition = imported(tmp_path, "import a_measuring_library\n")

            assert "own_library_busy 0.0" in scraped(edition)
    finally:
        REGISTRY.unregister(sys.modules.pop("a_measuring_library").BUSY)


def test_no_family_is_told_twice(tmp_path: Path) -> None:
    edition = imported(tmp_path, "Gauge('bayplan_generation', 'Not ours.').set(77)\n")

    families = [line.split()[2] for line in scraped(edition) if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    assert "bayplan_generation 77.0" not in scraped(edition)
    assert not [name for name in families if name.startswith("python_gc")]


def test_one_that_fails_takes_no_others_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken = (
        "class Broken:\n    def collect(self):\n        if ready:\n            1 / 0\n        return []\n"
    )
    edition = imported(tmp_path, f"ready = False\n{broken}\nREGISTRY.register(Broken())\nready = True\n")

    assert [line for line in scraped(edition) if line.startswith("bayplan_info{")]
    assert "metrics of policies cannot be read: ZeroDivisionError" in caplog.text
