"""Whatever a file holds, doctor answers: findings, or one clear line and exit code 2."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.cli.main import commands
from bayplan.doctor.examine import examine
from bayplan.doctor.files import UnreadableError, read_text
from bayplan.doctor.finding import Finding
from bayplan.doctor.fix import fix
from bayplan.doctor.schema import CONFIGURATION, EXTENDER, PROFILE, TLS
from bayplan.doctor.setting import Setting, Version
from tests.doctor.cases import FOLDER, read_case

KEYS = sorted(
    {*CONFIGURATION, *EXTENDER, *PROFILE, *TLS, "metadata", "spec", "template", "annotations", "name"}
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["5s", "http://[::1", "https://a:b@c:99999/", "default-scheduler", "*", "example.com/x"]),
)
VALUES: Any = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), inner, max_size=5),
    ),
    max_leaves=25,
)
KINDS = st.sampled_from(
    ["KubeSchedulerConfiguration", "Policy", "Pod", "Deployment", "CronJob", "ConfigMap", "List", None, 7]
)
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def examined(text: str | bytes) -> list[Finding]:
    """What is found; nothing where it is refused in so many words."""
    try:
        return examine(read_text(text, source="x"), Setting())
    except UnreadableError:
        return []


@SLOW
@given(
    kind=KINDS,
    data=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8),
    extenders=st.lists(st.dictionaries(st.sampled_from(sorted(EXTENDER)), VALUES, max_size=12), max_size=3),
)
def test_no_shape_of_a_document_is_too_much(kind: Any, data: dict[str, Any], extenders: list[Any]) -> None:
    text = yaml.safe_dump({"kind": kind, **data, "extenders": extenders}, allow_unicode=True)

    found = examined(text)

    json.dumps([finding.told() for finding in found])
    assert all(finding.what and str(finding.where) for finding in found)


@SLOW
@given(
    extenders=st.lists(st.dictionaries(st.sampled_from(sorted(EXTENDER)), SCALARS, max_size=12), max_size=3)
)
def test_a_corrected_file_is_always_correct_yaml_with_nothing_left_to_correct(extenders: list[Any]) -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta2",
        "kind": "KubeSchedulerConfiguration",
        "extenders": extenders,
    }
    for text in (
        yaml.safe_dump(config, sort_keys=False, allow_unicode=True),
        yaml.safe_dump(config, default_flow_style=True, sort_keys=False, allow_unicode=True),
    ):
        try:
            read_text(text, source="x")
        except UnreadableError:
            continue

        made = fix(
            text.encode(),
            lambda t: examine(read_text(t, source="x"), Setting()),
            source="x",
            version=Version(36),
        )

        left = [f for f in examine(read_text(made.text, source="x"), Setting()) if f.fixable]
        assert len(left) == len([r for r in made.remarks if "could not be edited" in r])


@SLOW
@given(
    container=st.dictionaries(st.sampled_from(["workingDir", "volumeMounts", "name", "image"]), VALUES),
    words=st.lists(SCALARS | st.sampled_from(["--config=/a/b", "sh", "-c", "kube-scheduler --port '"])),
    mount=st.dictionaries(st.sampled_from(["name", "mountPath", "subPath"]), SCALARS | st.just("/a")),
    volume=st.dictionaries(st.sampled_from(["name", "hostPath", "configMap"]), VALUES),
)
def test_no_shape_of_a_kube_scheduler_is_too_much(
    container: dict[str, Any], words: list[Any], mount: dict[str, Any], volume: dict[str, Any]
) -> None:
    command = {"command": ["kube-scheduler", *words], "volumeMounts": [mount], **container}
    pod = {"kind": "Pod", "spec": {"containers": [command, {"command": words}], "volumes": [volume]}}
    maps = [{"kind": "ConfigMap", "metadata": {"name": volume.get("name")}, "data": volume}]

    found = examined(yaml.safe_dump_all([pod, *maps], allow_unicode=True))

    json.dumps([finding.told() for finding in found])
    assert all(finding.what and finding.where.line for finding in found)


@SLOW
@given(st.binary(max_size=200))
def test_bytes_that_mean_nothing_are_refused(content: bytes) -> None:
    assert isinstance(examined(content), list)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00\x01", id="no text"),
        pytest.param(b"\xff\xfe\x00\xd8", id="half a character"),
        pytest.param(b"[" * 100_000, id="a tower of brackets"),
        pytest.param(b"kind: KubeSchedulerConfiguration\nextenders: [}", id="no YAML"),
        pytest.param(b"kind: KubeSchedulerConfiguration\nkind: Pod\n", id="a key twice"),
        pytest.param(b"kind: Service\n", id="of no interest"),
        pytest.param(b"a: &a [*a]\n", id="an endless loop"),
        pytest.param(b"a: &a [x,x]\nb: &b [*a,*a]\nkind: !!python/object:os.system {}\n", id="a tag"),
        pytest.param(b"hello", id="a word"),
        pytest.param(b"? [a]\n: b\n", id="a key that is a list"),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--fix"]])
def test_a_file_that_cannot_be_examined_exits_with_2_and_a_line(
    content: bytes, flags: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_bytes(content)

    result = CliRunner().invoke(commands, ["doctor", str(file), *flags])

    assert result.exit_code == 2
    assert result.output.startswith("Error: ")
    assert "hostile.yaml" in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        pytest.param("5", id="a number"),
        pytest.param("[]", id="a list"),
        pytest.param("{ignoredResources: 5, ignoredResourceGroups: 5}", id="numbers"),
        pytest.param("{ignoredResources: example.com/gpu-memory-of-others}", id="a text"),
        pytest.param("{ignoredResources: {example.com/gpu-memory: true}}", id="a mapping"),
    ],
)
def test_arguments_of_a_plugin_that_are_none_ignore_nothing(args: str) -> None:
    case = read_case(FOLDER / "clean-shared-gpu.yaml")
    text = case.path.read_text()
    wrong = text.replace("      ignoredResources: [example.com/gpu-memory]\n", "").replace(
        "    args:\n", f"    args: {args}\n"
    )

    assert "resource-not-advertised" in [finding.id for finding in case.examine(wrong)]
