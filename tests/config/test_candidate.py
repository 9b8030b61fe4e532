"""A candidate is loaded apart from the live configuration, and judged by the same rules."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.authoring.hooks import PolicyError
from bayplan.config.candidate import candidate_path, load_candidate
from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.load import ConfigError

POLICY = "import bayplan\n\n@bayplan.filter\ndef named(pod, node):\n    return node.name == 'a' or 'not a'\n"
RAISES = POLICY.replace("return node", "return 1 / 0 or node")
COUNTS_PODS = "import bayplan\n\n@bayplan.filter\ndef free(pod, nodes):\n    return nodes['cpu.free'] > 0\n"
COUNTER = "from prometheus_client import Counter\nASKED = Counter('asked', 'How often.')\n" + POLICY


def write(file: Path, **config: Any) -> Path:
    head = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration"}
    file.write_text(yaml.safe_dump({**head, "policies": [{"use": "policy.py"}], **config}))
    return file


@pytest.fixture
def live(tmp_path: Path) -> Loaded:
    (tmp_path / "policy.py").write_text(POLICY)
    return load_all([], Flags(config=write(tmp_path / "live.yaml", shadow={"config": "next.yaml"})))


def test_its_path_starts_from_the_live_file_and_a_flag_wins(tmp_path: Path, live: Loaded) -> None:
    flagged = load_all([], Flags(config=tmp_path / "live.yaml", shadow=tmp_path / "other.yaml"))

    assert candidate_path(live) == tmp_path / "next.yaml"
    assert candidate_path(flagged) == tmp_path / "other.yaml"
    assert candidate_path(load_all([str(tmp_path / "policy.py")], Flags())) is None


def test_it_may_have_the_same_policies_and_files_as_the_live_one(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(COUNTER)
    live = load_all([], Flags(config=write(tmp_path / "live.yaml")))

    found = load_candidate(write(tmp_path / "next.yaml"), live)

    assert [p.name for p in found.loaded.policies] == [p.name for p in live.policies] == ["policy"]
    assert found.loaded.edition is not live.edition


def test_it_may_be_a_file_with_policies(tmp_path: Path, live: Loaded) -> None:
    found = load_candidate(tmp_path / "policy.py", live)

    assert [policy.name for policy in found.loaded.policies] == ["policy"]
    assert (found.file, found.ignored) == ("policy.py", "")


def test_one_line_says_which_of_its_parts_are_ignored(tmp_path: Path, live: Loaded) -> None:
    other = write(tmp_path / "next.yaml", extender={"listen": ":1"}, page={"listen": "off"}, sources=[])

    assert load_candidate(other, live).ignored == (
        "shadow: extender, page of next.yaml is ignored: only its policies and sources count"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "policys: []", "next.yaml:1: policys: unknown key; did you mean 'policies'?", id="a typo"
        ),
        pytest.param("", "the file is empty", id="an empty file"),
        pytest.param(
            "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration",
            "next.yaml: no policies",
            id="no policies",
        ),
        pytest.param(None, "shadow: there is no file", id="no file"),
    ],
)
def test_a_bad_one_is_an_error_that_says_where(
    tmp_path: Path, live: Loaded, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / "next.yaml").write_text(text)

    with pytest.raises(ConfigError) as raised:
        load_candidate(tmp_path / "next.yaml", live)

    assert said in str(raised.value)


def test_a_file_that_cannot_be_imported_is_an_error(tmp_path: Path, live: Loaded) -> None:
    (tmp_path / "next.py").write_text("import bayplan\nimport nobody_has_this\n")

    with pytest.raises(PolicyError, match="nobody_has_this"):
        load_candidate(tmp_path / "next.py", live)


def test_what_its_dry_run_finds_is_an_error_only_where_another_one_is_at_work(
    tmp_path: Path, live: Loaded
) -> None:
    (tmp_path / "next.py").write_text(RAISES)

    assert "ZeroDivisionError" in load_candidate(tmp_path / "next.py", live).problems[0]
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        load_candidate(tmp_path / "next.py", live, strict=True)


def test_it_is_asked_about_the_cluster_of_the_live_one(tmp_path: Path, live: Loaded) -> None:
    """Where requests alone tell of the cluster nobody knows pods, whatever the candidate's file says."""
    (tmp_path / "policy.py").write_text(COUNTS_PODS)
    candidate = write(tmp_path / "next.yaml", cluster={"source": "kubeconfig"})

    with pytest.raises(ConfigError, match=r"cpu\.free"):
        load_candidate(candidate, live)
