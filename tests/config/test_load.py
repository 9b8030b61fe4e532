"""The configuration is read strictly: each mistake with its file, its line and the nearest right name."""

from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from bayplan.config.assemble import assemble
from bayplan.config.load import ConfigError, convert, load_config, parse_config
from bayplan.kube.yaml import read_documents

HEAD = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n"


def parse(text: str, *, head: str = HEAD) -> str:
    """The error that this text is."""
    with pytest.raises(ConfigError) as caught:
        parse_config((head + text).encode(), source="bayplan.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "polices: []\n",
            "bayplan.yaml:3: polices: unknown key; did you mean 'policies'?",
            id="a typo at the top",
        ),
        pytest.param(
            "policies:\n- use: a.py\n  wieght: 2\n",
            "bayplan.yaml:5: policies[0].wieght: unknown key; did you mean 'weight'?",
            id="a typo in a policy",
        ),
        pytest.param(
            "limits:\n  policyTimeout: 1s\n",
            "bayplan.yaml:3: limits: unknown key; did you mean 'extender.limits'?",
            id="a section of another section",
        ),
        pytest.param(
            "policyTimeout: 1s\n",
            "bayplan.yaml:3: policyTimeout: unknown key; did you mean 'extender.limits.policyTimeout' or"
            " 'scheduler.policyTimeout'?",
            id="a key of two sections",
        ),
        pytest.param(
            "extender:\n  keep: 1\n",
            "bayplan.yaml:4: extender.keep: unknown key; did you mean 'extender.answer.keep'?",
            id="a key of a section below",
        ),
        pytest.param(
            "policies:\n- use: Spread\nargs:\n  pods: {}\n",
            "bayplan.yaml:5: args: unknown key; indent it, as a key of an entry of `policies`",
            id="a key of a policy beside the list",
        ),
        pytest.param(
            "policies:\n- use: Spread\n  args:\n  pods: {}\n",
            "bayplan.yaml:5: policies[0].args: want a mapping, got nothing; indent its keys below it, or"
            " leave it out",
            id="keys of a mapping beside it",
        ),
        pytest.param(
            "policies:\n- use: Spread\n  pods: {}\n",
            "bayplan.yaml:5: policies[0].pods: unknown key; what the policy itself takes goes under `args`;"
            " known here: args, ",
            id="an argument beside args",
        ),
        pytest.param(
            "policies:\n- use: a.py\n- use: b.py\n  for:\n    namespace: x\n",
            "bayplan.yaml:7: policies[1].for.namespace: unknown key; did you mean 'namespaces'?",
            id="a typo in a scope",
        ),
        pytest.param(
            "extender:\n  limits:\n    maxInflight: 3\n",
            "bayplan.yaml:5: extender.limits.maxInflight: unknown key; did you mean 'maxInFlight'?",
            id="a capital letter",
        ),
        pytest.param(
            "extender:\n  tls: {certFile: a, keyFile: b, clientCaFile: c}\n",
            "bayplan.yaml:4: extender.tls.clientCaFile: unknown key; did you mean 'clientCAFile'?",
            id="an acronym",
        ),
        pytest.param(
            "policies:\n- use: a.py\n  failurePolicy: ignore\n",
            "bayplan.yaml:5: policies[0].failurePolicy: 'ignore' is not allowed; did you mean 'Ignore'?",
            id="a value in the wrong case",
        ),
        pytest.param(
            "cluster:\n  source: kubecfg\n",
            "bayplan.yaml:4: cluster.source: 'kubecfg' is not allowed; did you mean 'kubeconfig'?",
            id="a source that is none",
        ),
        pytest.param(
            "extender:\n  limits:\n    policyTimeout: 5\n",
            "bayplan.yaml:5: extender.limits.policyTimeout: a duration is text with a unit, such as 5s",
            id="seconds without a unit",
        ),
        pytest.param(
            "extender:\n  limits: {maxConnections: 0}\n",
            "bayplan.yaml:4: extender.limits.maxConnections: want a whole number >= 1",
            id="a bound of nothing",
        ),
        pytest.param(
            "policies:\n- use: a.py\n  weight: -1\n",
            "bayplan.yaml:5: policies[0].weight: want a number > 0",
            id="a negative weight",
        ),
        pytest.param(
            "policies:\n- name: x\n",
            "bayplan.yaml:4: policies[0]: `use` is missing",
            id="a policy without use",
        ),
        pytest.param(
            "policies: 3\n", "bayplan.yaml:3: policies: want a list, got a whole number", id="a wrong type"
        ),
        pytest.param(
            "policies: {use: a.py}\n",
            "bayplan.yaml:3: policies: want a list, got a mapping; each policy begins with a dash, as in",
            id="a mapping for a list",
        ),
        pytest.param(
            "policies: a.py\n",
            "bayplan.yaml:3: policies: want a list, got text; each policy begins with a dash, as in `- use:",
            id="a name for a list",
        ),
        pytest.param(
            "policies:\n- Spread\n",
            "bayplan.yaml:4: policies[0]: want a mapping, got text; write `- use: Spread`",
            id="a name for an entry",
        ),
        pytest.param(
            "policies:\n- {use: Spread, weight: '2.5'}\n",
            "bayplan.yaml:4: policies[0].weight: want a number, got text; leave the quotes out",
            id="a number in quotes",
        ),
        pytest.param(
            "extender:\n  tls: [a]\n",
            "bayplan.yaml:4: extender.tls: want a mapping or nothing, got a list",
            id="a list for a mapping",
        ),
        pytest.param(
            "extender:\n  observe: 'yes'\n",
            "bayplan.yaml:4: extender.observe: want true or false, got text",
            id="text for a switch",
        ),
        pytest.param(
            "extender:\n  listen: 8888\n",
            "bayplan.yaml:4: extender.listen: want text, got a whole number; write HOST:PORT, such as 127.",
            id="a port for an address",
        ),
        pytest.param(
            "extender:\n  opsListen: 8889\n",
            "bayplan.yaml:4: extender.opsListen: want text, got a whole number; write HOST:PORT, such as",
            id="a port for the other address",
        ),
        pytest.param(
            "extender:\n  path: 8889\n",
            "bayplan.yaml:4: extender.path: want text, got a whole number",
            id="a number for a path",
        ),
        pytest.param(
            "kind: Other\n",
            "bayplan.yaml:3: key 'kind' is given twice (first on line 2); keep one of them",
            id="twice",
        ),
        pytest.param("policies: [\n", "bayplan.yaml:4:1: not valid YAML", id="no YAML"),
        pytest.param("---\na: 1\n", "bayplan.yaml: want one YAML document, found 2", id="two documents"),
    ],
)
def test_mistakes(text: str, error: str) -> None:
    assert parse(text).startswith(error)


@pytest.mark.parametrize(
    ("head", "error"),
    [
        pytest.param(
            "", "bayplan.yaml: the file is empty; `bayplan init` writes a first one", id="an empty file"
        ),
        pytest.param("# all of it\n---\n", "bayplan.yaml: the file is empty", id="only a comment"),
        pytest.param(
            "kind: BayplanConfiguration\n",
            "bayplan.yaml:1: `apiVersion` is missing; add the line `apiVersion: bayplan.dev/v1`",
            id="no version",
        ),
        pytest.param(
            "apiVersion: bayplan.dev/v1\n",
            "bayplan.yaml:1: `kind` is missing; add the line `kind: BayplanConfiguration`",
            id="no kind",
        ),
        pytest.param(
            "apiVersion: bayplan.dev/v2\nkind: BayplanConfiguration\n",
            "bayplan.yaml:1: apiVersion: 'bayplan.dev/v2' is not allowed; did you mean 'bayplan.dev/v1'?",
            id="a version that is not known",
        ),
        pytest.param("just text\n", "want a mapping, got text", id="only a text"),
    ],
)
def test_files_that_are_none_of_ours(head: str, error: str) -> None:
    assert error in parse("", head=head)


def test_a_file_that_is_not_there_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory; `bayplan init` writes a first one"):
        load_config(tmp_path / "missing.yaml")


def test_everything_has_a_default() -> None:
    config, document = parse_config(HEAD.encode(), source="bayplan.yaml")

    assert config.extender.listen == "127.0.0.1:8888"
    assert config.extender.limits.keep_alive.seconds > 90, "kube-scheduler keeps idle connections for 90 s"
    assert config.extender.limits.request_timeout.seconds < 5, "kube-scheduler waits 5 s"
    assert config.extender.limits.interpreter_timeout.seconds == 30
    assert config.cluster.source == "request"
    assert document.source == "bayplan.yaml"


def test_every_key_can_be_given(tmp_path: Path) -> None:
    text = """
policies:
- use: a.py:Name
  name: a
  weight: 2.5
  for: {namespaces: ["batch-*"], podSelector: {matchLabels: {tier: batch}}}
  failurePolicy: Ignore
  args: {limit: 3}
cluster: {source: snapshot, snapshot: cluster.json, kubeconfig: k, context: c, maxAge: 1m, qps: 20, burst: 5}
extender:
  listen: ":8888"
  opsListen: "[::1]:8889"
  path: /scheduler
  observe: true
  kubeSchedulerVersion: v1.38.1
  tls: {certFile: a, keyFile: b, clientCAFile: c, requireClientCert: true, allowedNames: [x], reload: 1s}
  limits: {maxBodyBytes: 1, maxConnections: 2, maxInFlight: 3, headerTimeout: 4s, bodyTimeout: 5s,
    keepAlive: 6s, policyTimeout: 7s, requestTimeout: 8s, drainTimeout: 9s, stuckThreads: 10,
    interpreterTimeout: 11s}
"""
    path = tmp_path / "bayplan.yaml"
    path.write_text(HEAD + text)

    config, _ = load_config(path)

    assert config.policies[0].args == {"limit": 3}
    assert config.extender.tls is not None
    assert config.extender.tls.allowed_names == ("x",)
    assert config.extender.limits.interpreter_timeout.seconds == 11


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "scheduler:\n  schedulerName: mine\n",
            "bayplan.yaml:4: scheduler.schedulerName: unknown key;"
            " indent it, as a key of an entry of `profiles`",
            id="the name of a profile",
        ),
        pytest.param(
            "prometheus: {url: x}\n",
            "bayplan.yaml:3: prometheus: unknown key; indent it, as a key of an entry of `sources`",
            id="what a source reads",
        ),
    ],
)
def test_a_key_beside_the_list_that_it_belongs_to_is_told_so(text: str, said: str) -> None:
    assert parse(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "sources: [{name: 'a b'}]\n",
            "sources[0].name: want letters, digits, - and _, got 'a b'",
            id="name",
        ),
        pytest.param(
            "extender: {kubeSchedulerVersion: '36'}\n",
            "extender.kubeSchedulerVersion: want a version, such as 1.36, got '36'",
            id="version",
        ),
        pytest.param(
            "policies:\n- use: SharedResource\n  args: {resource: gpu, capacity: gpus}\n",
            "args.resource: want a resource with a slash, such as example.com/gpu-memory, got 'gpu'",
            id="an argument",
        ),
        pytest.param(
            "policies:\n- use: SharedResource\n"
            "  args: {resource: a/b, capacity: c, deviceCount: {resource: d}}\n",
            "policies[0].args.deviceCount.resource: want a resource with a slash",
            id="one that may be left out",
        ),
    ],
)
def test_a_text_of_the_wrong_form_is_explained_without_a_regular_expression(text: str, said: str) -> None:
    content = f"apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n{text}".encode()

    with pytest.raises(ConfigError) as caught:
        assemble(*parse_config(content, source="bayplan.yaml"))

    assert said in str(caught.value)


def test_a_pattern_that_nobody_explains_is_told_as_it_is() -> None:
    class Settings(msgspec.Struct):
        code: Annotated[str, msgspec.Meta(pattern="^a+$", extra={"other": 1})]

    (document,) = read_documents("code: b\n", source="x.yaml")

    with pytest.raises(ConfigError, match=r"^x\.yaml:1: code: want text matching regex '\^a\+\$', got 'b'$"):
        convert(document, Settings)
