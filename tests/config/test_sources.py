"""Sources in the configuration: what becomes of an entry, and mistakes with their lines."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bayplan.authoring.editions import anew
from bayplan.config.columns import describe_columns
from bayplan.config.flags import Flags, load_all
from bayplan.config.load import ConfigError
from bayplan.config.told import told
from bayplan.runtimes.extender.check import check
from bayplan.snapshot.describe import ColumnInfo
from bayplan.state.sources.asker import Asked
from bayplan.state.sources.book import Sources
from bayplan.state.sources.http import SourceHttp
from bayplan.state.sources.poller import Polled
from bayplan.testing import make_pod
from tests.client.serving import serving

HEAD = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n"
READS_LOAD = "policies:\n- use: Load\n  args:\n    columns:\n    - source: load\n"
SNAPSHOT = """
{"kind": "List", "items": [
  {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4"}}},
  {"kind": "Node", "metadata": {"name": "b"}, "status": {"allocatable": {"cpu": "4"}}},
  {"kind": "Pod", "metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": "a", "containers": []}}
]}
"""
OWN = """
import bayplan

PRICE = bayplan.Source("prices")

@bayplan.source(every="1m", max_age="10m")
async def prices(http):
    return {"a": 1.5}

@bayplan.policy
class Cheap:
    @bayplan.score(best="low")
    def price(self, pod, nodes):
        return nodes[PRICE]

@bayplan.policy
class Known:
    @bayplan.filter
    def known(self, pod, nodes):
        return nodes[PRICE] > 0
"""


def flags(folder: Path, text: str, **more: Any) -> Flags:
    path = folder / "bayplan.yaml"
    path.write_text(HEAD + text)
    return Flags(config=path, **more)


def declared(folder: Path, text: str) -> dict[str, Any]:
    return {each.name: each for each in load_all([], flags(folder, text)).sources}


def test_a_prometheus_is_polled(tmp_path: Path) -> None:
    text = """
sources:
- name: load
  prometheus:
    url: https://prometheus:9090
    queries: {cpu: x, memory: y}
    timeout: 20s
    bearerTokenFile: token
    caFile: ca.crt
    headers: {X-Scope-OrgID: secret-tenant}
  interval: 10s
  maxAge: 1m
  settle: 45s
"""
    found = declared(tmp_path, text)["load"]

    assert isinstance(found.source, Polled)
    assert (found.source.every_seconds, found.source.max_age_seconds) == (10, 60)
    assert (found.source.match, found.source.settle_seconds) == ("internalIP", 45)
    # Two questions, each with its own time.
    assert (found.access.timeout_seconds, found.source.timeout_seconds) == (20, 40)
    assert found.access.ca_file == tmp_path / "ca.crt"
    assert found.access.bearer_token_file == tmp_path / "token"
    assert "secret-tenant" not in repr(found.access)


def test_a_service_that_is_asked_about_pods_has_little_time(tmp_path: Path) -> None:
    text = "sources:\n- name: svc\n  per: pod\n  http: {url: 'http://svc/'}\n"
    text += "  fallback: {refuse: down, score: 3}\n"

    found = declared(tmp_path, text)["svc"]

    assert isinstance(found.source, Asked)
    assert (found.source.timeout_seconds, found.access.timeout_seconds) == (0.5, 0.5)
    assert found.source.fallback == {"refuse": "down", "score": 3}


def test_a_service_is_told_who_the_pod_is_and_nothing_of_its_containers() -> None:
    pod = make_pod("web", namespace="shop", uid="u", labels={"app": "web"}, cpu=1, priority=5)

    assert told(pod) == {
        "namespace": "shop",
        "name": "web",
        "uid": "u",
        "labels": {"app": "web"},
        "annotations": {},
        "requests": {"cpu": 1000},
        "priority": 5,
    }


APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [
        pytest.param([], set(), id="none, where none is named"),
        pytest.param(["team"], {"team"}, id="by name"),
        pytest.param(["example.com/*"], {"example.com/tier", "example.com/cost"}, id="by pattern"),
        pytest.param(
            ["*"], {"team", "example.com/tier", "example.com/cost"}, id="by any name, but for the whole pod"
        ),
        pytest.param([APPLIED], {APPLIED}, id="the whole pod by its full name"),
        pytest.param(["Team"], set(), id="letters in another case"),
    ],
)
def test_a_service_is_told_the_annotations_that_are_named(wanted: list[str], sent: set[str]) -> None:
    """kubectl writes the whole pod into an annotation, with what its containers are told."""
    keys = ("team", "example.com/tier", "example.com/cost", APPLIED)

    assert set(told(make_pod(annotations=dict.fromkeys(keys, "x")), wanted)["annotations"]) == sent


async def test_what_a_service_gets_is_what_its_entry_says(tmp_path: Path) -> None:
    got: list[Any] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        got.append(await request.json())
        return web.json_response({"a": 1})

    async with serving(answer) as url:
        http_of = f"http: {{url: '{url}', timeout: 4s}}"
        entry = f"sources:\n- name: svc\n  per: pod\n  annotations: ['x/*']\n  {http_of}\n"
        found = declared(tmp_path, entry)["svc"]
        http = SourceHttp(found.access)
        pod = make_pod("p", annotations={"x/a": "1", "secret": "2"})
        assert await found.source.fetch(http, pod, ["a"]) == {"a": 1}
        await http.close()

    assert got[0]["pod"]["annotations"] == {"x/a": "1"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            f"sources:\n- name: laod\n  file: {{path: x}}\n{READS_LOAD}",
            "bayplan.yaml:10: policies[0].args.columns[0].source: policy 'Load' reads Source('load'):"
            " no such source; did you mean 'laod'?",
            id="a name that there is not",
        ),
        pytest.param(READS_LOAD, "no such source; add it under `sources:`", id="no sources at all"),
        pytest.param(
            "sources:\n- name: load\n  prometheus: {url: 'http://p', queries: {cpu: x}}\n"
            "policies:\n- use: Load\n  args: {columns: [{source: load.cpuu}]}\n",
            "bayplan.yaml:8: policies[0].args.columns[0].source: policy 'Load' reads Source('load.cpuu'):"
            " the source has no such column; did you mean 'load.cpu'?",
            id="a column that there is not",
        ),
        pytest.param(
            "sources:\n- name: svc\n  http: {url: 'http://x'}\n"
            "policies:\n- use: ExternalService\n  args: {source: scv}\n",
            "bayplan.yaml:8: policies[0].args.source: policy 'ExternalService' reads",
            id="a name out of which columns are made",
        ),
        pytest.param(
            "policies:\n- use: own.py:Reads\n",
            "bayplan.yaml:4: policies[0]: policy 'Reads' reads Source('p95'): no such source",
            id="a name in code",
        ),
        pytest.param(
            "sources:\n- {name: x, file: {path: a}}\n- {name: x, file: {path: b}}\n",
            "bayplan.yaml:5: sources[1].name: two sources are called 'x'; rename one of them",
            id="one name twice",
        ),
        pytest.param(
            "sources:\n- name: x\n  per: pod\n  prometheus: {url: 'http://p', query: up}\n",
            "bayplan.yaml:5: sources[0].per: `per: pod` is for http alone",
            id="Prometheus about a pod",
        ),
        pytest.param(
            "sources:\n- name: x\n  per: pod\n  http: {url: 'http://p', match: hostname}\n",
            "sources[0].http.match: `per: pod` sends names of nodes",
            id="other names about a pod",
        ),
        pytest.param(
            "sources:\n- name: x\n  http:\n    url: prometheus:9090\n",
            "bayplan.yaml:6: sources[0].http.url: ",
            id="no scheme",
        ),
        pytest.param(
            "sources:\n- name: x\n  http: {url: 'http://host:port/'}\n",
            "sources[0].http.url: http://host:port/ is no address, such as http://prometheus:9090",
            id="no port",
        ),
        pytest.param(
            "sources:\n- name: x\n  http: {url: 'http://169.254.169.254/'}\n",
            "sources[0].http.url: 169.254.169.254 is 169.254.169.254, where clouds keep credentials",
            id="where credentials are",
        ),
        pytest.param(
            "sources:\n- name: x\n",
            "sources[0]: give one of prometheus, http, file; there is none",
            id="none",
        ),
        pytest.param(
            "sources:\n- name: x\n  file: {path: a}\n  http: {url: 'http://x'}\n",
            "there is http and file",
            id="two of them",
        ),
        pytest.param(
            "sources:\n- name: x\n  prometheus: {url: 'http://p'}\n",
            "sources[0].prometheus: give `query`, or `queries` by name",
            id="no query",
        ),
        pytest.param(
            "sources:\n- name: x\n  file: {path: a}\n  interval: 10m\n",
            "sources[0].maxAge: 5m is less than `interval`, 10m",
            id="too old before they are new",
        ),
        pytest.param(
            "sources:\n- name: x\n  file: {path: a}\n  fallback: {a: 1}\n",
            "sources[0].fallback: is for `per: pod`",
            id="a fallback for nobody",
        ),
        pytest.param(
            "sources:\n- name: x\n  http: {url: 'http://x'}\n  annotations: [team]\n",
            "bayplan.yaml:6: sources[0].annotations: is for `per: pod`: nobody else is told of a pod",
            id="annotations for nobody",
        ),
        pytest.param(
            "sources:\n- name: x\n  per: pod\n  http: {url: 'http://x', timeout: 10s}\n",
            "sources[0]: timeout of 10 s while kube-scheduler waits; want less than"
            " extender.limits.requestTimeout",
            id="longer than kube-scheduler waits",
        ),
        pytest.param(
            "sources:\n- name: a.b\n  file: {path: a}\n",
            "bayplan.yaml:4: sources[0].name: ",
            id="a name with a dot",
        ),
    ],
)
def test_mistakes_say_where(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "own.py").write_text(
        "import bayplan\n\nP95 = bayplan.Source('p95')\n\n@bayplan.policy\nclass Reads:\n"
        "    @bayplan.score\n    def fast(self, nodes):\n        return nodes[P95]\n"
    )

    with pytest.raises(ConfigError) as caught:
        load_all([], flags(tmp_path, text))

    assert error in str(caught.value)
    assert "bayplan.yaml:" in str(caught.value)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param("- use: own.py\n", id="the whole file"),
        pytest.param("- use: own.py:Cheap\n", id="one policy of it"),
        pytest.param("- use: own.py:Cheap\n- use: own.py:Known\n", id="two policies of it, one by one"),
    ],
)
def test_a_source_in_python_comes_with_its_file_once(tmp_path: Path, use: str) -> None:
    (tmp_path / "own.py").write_text(OWN)

    found = declared(tmp_path, f"policies:\n{use}")

    assert list(found) == ["prices"]
    assert (found["prices"].source.every_seconds, found["prices"].source.max_age_seconds) == (60, 600)


def test_a_source_in_python_must_not_have_the_name_of_another(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)

    with pytest.raises(ConfigError, match=r"own.py:6: two sources are called 'prices'"):
        declared(tmp_path, "sources:\n- {name: prices, file: {path: x}}\npolicies:\n- use: own.py\n")


def columns(folder: Path, text: str, **more: Any) -> dict[str, ColumnInfo]:
    return {info.column: info for info in describe_columns([], flags(folder, text, **more))}


USAGE = """
sources:
- {name: load, file: {path: load.yaml}}
- {name: svc, per: pod, http: {url: "http://127.0.0.1:1/"}}
policies:
- {use: Load, args: {columns: [{source: load, refuseAbove: 0.8}]}}
- {use: ExternalService, args: {source: svc}}
"""


def test_columns_of_sources_are_listed_with_what_they_say_now(tmp_path: Path) -> None:
    (tmp_path / "snapshot.json").write_text(SNAPSHOT)
    (tmp_path / "load.yaml").write_text("a: 0.9\n")

    found = columns(tmp_path, USAGE, snapshot=tmp_path / "snapshot.json")

    assert found["Source('load')"].values == "0.9 (1 node without)"
    assert found["Source('load').latched(above=0.8, below=0.8)"].values == "true on 1 of 2"
    assert found["Source('svc.refuse')"].values == "asked about each pod"


def test_a_source_that_fails_is_listed_with_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "snapshot.json").write_text(SNAPSHOT)

    found = columns(tmp_path, USAGE, snapshot=tmp_path / "snapshot.json")

    assert "load.yaml: No such file" in found["Source('load')"].values


def test_without_a_cluster_nobody_is_asked(tmp_path: Path) -> None:
    assert columns(tmp_path, USAGE)["Source('load')"].values == ""


def test_check_runs_every_hook_with_values_of_its_sources(tmp_path: Path) -> None:
    (tmp_path / "snapshot.json").write_text(SNAPSHOT)

    assert check([], flags(tmp_path, USAGE, snapshot=tmp_path / "snapshot.json")).problems == []


PROMETHEUS = "sources:\n- name: load\n  prometheus: {url: 'http://p', query: up}\n"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        pytest.param(PROMETHEUS, True, id="nothing"),
        pytest.param(PROMETHEUS + "  interval: 10s\n  maxAge: 20s\n", True, id="how often it is asked"),
        pytest.param(PROMETHEUS.replace("up", "down"), False, id="another query"),
        pytest.param(PROMETHEUS.replace("up", "up, match: name"), False, id="another name of the node"),
        pytest.param(PROMETHEUS.replace("//p", "//q"), False, id="another server"),
        pytest.param("sources:\n- {name: load, file: {path: x}}\n", False, id="another kind"),
    ],
)
def test_values_outlive_a_reload_where_the_source_means_the_same(
    tmp_path: Path, text: str, same: bool
) -> None:
    before, after = declared(tmp_path, PROMETHEUS)["load"], declared(tmp_path, text)["load"]

    assert (before.source.definition == after.source.definition) is same


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        pytest.param(OWN, True, id="the file as it was"),
        pytest.param(OWN.replace("1.5", "2.5"), False, id="another function"),
        pytest.param(OWN + "\nCURRENCY = 'EUR'\n", False, id="something beside it, which it may use"),
    ],
)
def test_values_of_a_function_outlive_a_reload_where_its_file_is_the_same(
    tmp_path: Path, changed: str, same: bool
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    before = declared(tmp_path, "policies:\n- use: own.py\n")["prices"]
    (tmp_path / "own.py").write_text(changed)
    after = declared(tmp_path, "policies:\n- use: own.py\n")["prices"]

    assert (before.source.definition == after.source.definition) is same


def test_values_of_a_function_do_not_outlive_a_change_of_what_it_imports(tmp_path: Path) -> None:
    definitions = []
    for unit in ("1", "1", "100"):
        (tmp_path / "own.py").write_text(OWN.replace("import bayplan\n", "import bayplan\nimport scale\n", 1))
        (tmp_path / "scale.py").write_text(f"UNIT = {unit}\n")
        with anew():
            definitions.append(declared(tmp_path, "policies:\n- use: own.py\n")["prices"].source.definition)

    first, same, other = definitions
    assert first is not None
    assert first == same
    assert first != other


async def test_a_source_that_means_something_else_begins_without_values(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("n: 1\n")
    text = "sources:\n- {name: load, file: {path: a.yaml}}\n"
    old = Sources([declared(tmp_path, text)["load"]])
    await old.polled["load"].ask()
    same = Sources([declared(tmp_path, text)["load"]])
    other = Sources([declared(tmp_path, text.replace("a.yaml", "b.yaml"))["load"]])

    same.take_over(old)
    other.take_over(old)

    assert same.polled["load"].reading.fields == {"": {"n": 1}}
    assert (other.polled["load"].reading.fields, other.polled["load"].answered) == ({}, False)
