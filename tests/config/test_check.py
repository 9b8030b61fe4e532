"""Loading and rehearsing together: what can never work is an error, the rest is a problem."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bayplan.client.errors import ConnectError
from bayplan.config.check import load_checked
from bayplan.config.flags import Flags
from bayplan.config.load import ConfigError
from bayplan.ops.tls import TlsError
from bayplan.runtimes.extender.check import check
from bayplan.snapshot.files import SnapshotError
from bayplan.testing import make_pod


def policy(folder: Path, code: str) -> str:
    path = folder / "policy.py"
    path.write_text(f"import bayplan\n\n{code}")
    return str(path)


def test_a_sound_policy(tmp_path: Path) -> None:
    report = check([policy(tmp_path, "@bayplan.filter\ndef f(pod, node): ...\n")], Flags())

    assert [p.name for p in report.policies] == ["policy"]
    assert report.problems == []


def test_a_promise_that_could_be_made_is_a_hint(tmp_path: Path) -> None:
    code = "@bayplan.filter\ndef f(pod, node):\n    return 'ssd' in dict.fromkeys(node.labels) or 'no SSD'\n"
    use = policy(tmp_path, code)

    (hint,) = check([use], Flags()).hints

    assert hint.startswith("policy.py:3 f: as far as a dry run shows")
    assert 'reads="node"' in hint


def test_a_promise_that_the_source_shows_needs_no_hint(tmp_path: Path) -> None:
    code = "@bayplan.filter\ndef f(pod, node):\n    return None if 'ssd' in node.labels else 'no SSD'\n"

    assert check([policy(tmp_path, code)], Flags()).hints == []


def test_who_has_a_problem_gets_no_hints(tmp_path: Path) -> None:
    use = policy(tmp_path, "@bayplan.filter\ndef f(pod, node):\n    return node.labels['x']\n")

    assert check([use], Flags()).hints == []


def test_a_policy_that_fails_on_some_nodes_is_a_problem(tmp_path: Path) -> None:
    report = check(
        [policy(tmp_path, "@bayplan.filter\ndef f(pod, node):\n    return node.labels['x']\n")], Flags()
    )

    assert report.problems == [
        "policy.py:5 f: KeyError: 'x'; write .get('x') where it may be missing (on node rehearsal-0)"
    ]


@pytest.mark.parametrize("takes", ["node", "nodes"])
def test_a_score_without_its_return_is_a_problem(takes: str, tmp_path: Path) -> None:
    report = check([policy(tmp_path, f"@bayplan.score\ndef s(pod, {takes}):\n    repr({takes})\n")], Flags())

    assert "policy.py:3 s: never returns a number; put `return` before what it works out" in report.problems


def test_a_policy_that_needs_pods_can_never_work_on_requests_alone(tmp_path: Path) -> None:
    use = policy(tmp_path, "@bayplan.score\ndef s(pod, nodes):\n    return nodes['cpu.free']\n")

    with pytest.raises(ConfigError, match=r"cpu\.free"):
        load_checked([use], Flags())
    assert load_checked([use], Flags(in_cluster=True))[1] == []


def test_no_policies_are_an_error_that_says_what_to_give() -> None:
    with pytest.raises(ConfigError, match=r"no policies: name a file, such as policy\.py"):
        check([], Flags())


def test_check_tries_the_nodes_of_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(
        "import bayplan\n\n@bayplan.score\ndef digit(node):\n    return int(node.name[-1])\n"
    )
    snapshot = tmp_path / "cluster.json"
    node = '{"kind":"Node","metadata":{"name":"control-plane"}}'
    pod = '{"kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"control-plane"}}'
    snapshot.write_text(f'{{"kind":"List","items":[{node},{pod}]}}')

    report = check([str(tmp_path / "policy.py")], Flags(snapshot=snapshot))

    (problem,) = report.problems
    assert problem.endswith("(on node control-plane)")
    assert report.tried_on == (
        "0, 1 and 3 nodes, and on the cluster's 1, for a plain pod and 1 of the cluster's"
    )


def test_a_hook_that_is_slower_than_the_server_waits_is_a_problem(tmp_path: Path) -> None:
    policy(tmp_path, "import time\n\n@bayplan.filter\ndef f(pod, node):\n    time.sleep(0.02)\n")
    config = tmp_path / "bayplan.yaml"
    config.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies: [{use: policy.py}]\n"
        "extender: {limits: {policyTimeout: 10ms}}\n"
    )

    (problem,) = check([], Flags(config=config)).problems

    assert problem.startswith("policy.py:5 f: took 0.")
    assert problem.endswith(
        "s on 1 node, extender.limits.policyTimeout is 0.01 s: it would fail for each pod"
    )


def test_a_mistake_is_told_once_in_the_words_of_the_cluster(tmp_path: Path) -> None:
    code = (
        "@bayplan.filter\ndef f(pod, node):\n    return node.labels['rack'] == 'a'\n\n"
        "@bayplan.score\ndef s(pod, nodes):\n    return nodes['cpu.allocatable'].reshape(-1, 1)\n"
    )

    report = check([policy(tmp_path, code)], _cluster(tmp_path, {}, {}))

    assert sorted(report.problems) == [
        "policy.py:5 f: KeyError: 'rack'; write .get('rack') where it may be missing (on node node-0)",
        "policy.py:7 s: returned an array of shape (2, 1) for 2 nodes",
    ]


def test_check_says_that_a_snapshot_without_pods_is_half_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text("import bayplan\n\n@bayplan.filter\ndef f(node):\n    pass\n")
    snapshot = tmp_path / "cluster.json"
    snapshot.write_text('{"kind":"NodeList","items":[{"metadata":{"name":"n"}}]}')

    report = check([str(tmp_path / "policy.py")], Flags(snapshot=snapshot))

    (problem,) = report.problems
    assert problem.startswith("the snapshot has no pods, so every node looks empty")
    assert "kubectl get nodes,pods -A -o json" in problem


@pytest.mark.parametrize("snapshot", [False, True])
def test_what_is_wrong_whatever_nodes_there_are_is_said_with_a_cluster_too(
    snapshot: bool, tmp_path: Path
) -> None:
    use = policy(tmp_path, "@bayplan.score\ndef s(pod, node):\n    len(node.name)\n")
    cluster = tmp_path / "cluster.json"
    pod = '{"kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"n"}}'
    cluster.write_text(f'{{"kind":"List","items":[{{"kind":"Node","metadata":{{"name":"n"}}}},{pod}]}}')

    report = check([use], Flags(snapshot=cluster) if snapshot else Flags())

    assert report.problems == ["policy.py:3 s: never returns a number; put `return` before what it works out"]


def test_a_filter_that_never_refuses_is_a_hint_and_not_to_promise_anything(tmp_path: Path) -> None:
    use = policy(tmp_path, "@bayplan.filter\ndef f(pod, node):\n    'no' if node.labels else None\n")

    assert check([use], Flags()).hints == ["policy.py:3 f: never refuses a node; is a `return` missing?"]


def test_a_policy_is_no_configuration(tmp_path: Path) -> None:
    use = policy(tmp_path, "@bayplan.filter\ndef f(pod, node): ...\n")

    with pytest.raises(ConfigError, match=r"policy.py is a policy, not a configuration: give it without"):
        check([], Flags(config=Path(use)))


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        pytest.param("cluster: {source: snapshot, snapshot: nope.json}", "nope.json", id="no such snapshot"),
        pytest.param(
            "cluster: {source: kubeconfig, kubeconfig: nope}", "kubeconfig .*nope", id="no such kubeconfig"
        ),
        pytest.param("cluster: {kubeconfig: k}", "set `source: kubeconfig`", id="a kubeconfig for nothing"),
        pytest.param("cluster: {snapshot: s}", "set `source: snapshot`", id="a snapshot for nothing"),
        pytest.param("cluster: {nodesOnly: true}", "cluster.source is request: take it", id="no pods anyway"),
        pytest.param(
            "cluster: {nodesOnly: true, source: snapshot, snapshot: s}",
            "nodesOnly needs a cluster that is followed",
            id="nodes alone of a file",
        ),
        pytest.param(
            "cluster: {nodesOnly: true, source: kubeconfig, nudge: {enabled: true}}",
            "yaml: cluster.nodesOnly, and cluster.nudge: take one",
            id="touching pods that nobody follows",
        ),
        pytest.param(
            "cluster: {nodesOnly: true, source: kubeconfig}\nextender: {lease: {use: always}}",
            "nodesOnly, and extender.lease, which is for binds",
            id="a Lease for no binds",
        ),
        pytest.param("extender: {tls: {certFile: c, keyFile: k}}", "certificate", id="no such certificate"),
        pytest.param(
            "extender: {tls: {certFile: c, keyFile: k, requireClientCert: true}}",
            "without a CA",
            id="client authentication without a CA",
        ),
    ],
)
def test_check_finds_what_serve_would_find(tmp_path: Path, extra: str, complaint: str) -> None:
    (tmp_path / "policy.py").write_text("import bayplan\n\n@bayplan.filter\ndef f(node):\n    pass\n")
    config = tmp_path / "bayplan.yaml"
    head = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies: [{use: policy.py}]\n"
    config.write_text(head + extra)

    with pytest.raises((ConfigError, SnapshotError, ConnectError, TlsError), match=complaint):
        check([], Flags(config=config))


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        pytest.param(
            "@bayplan.score\ndef free(nodes):\n    return nodes['cpu.free']\n",
            "column 'cpu.free' needs the placed pods.*without nodesOnly",
            id="counts pods",
        ),
        pytest.param(
            "@bayplan.filter(recheck=True)\ndef f(node): ...\n",
            "nodesOnly, and policies that check or hand out at bind",
            id="checks at bind",
        ),
    ],
)
def test_who_looks_at_pods_needs_more_than_nodes(tmp_path: Path, code: str, complaint: str) -> None:
    policy(tmp_path, code)
    config = tmp_path / "bayplan.yaml"
    config.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies: [{use: policy.py}]\n"
        "cluster: {source: in-cluster, nodesOnly: true}\n"
    )

    with pytest.raises(ConfigError, match=complaint):
        load_checked([], Flags(config=config))


def test_without_pods_in_view_lines_that_were_not_run_may_fail(tmp_path: Path) -> None:
    policy(
        tmp_path, "@bayplan.filter\ndef f(pod, node):\n    if 'team' in pod.labels:\n        return 'no'\n"
    )
    config = tmp_path / "bayplan.yaml"
    config.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies: [{use: policy.py}]\n"
        "cluster: {source: in-cluster, nodesOnly: true}\n"
    )

    elsewhere, lines, without = check([], Flags(config=config)).hints

    assert elsewhere.endswith("give --kubeconfig FILE")
    assert lines.endswith("give one that comes there: --pod pod.yaml")
    assert without.startswith("cluster.nodesOnly: no pods are in view. If a line that was not run needs them")


def test_who_is_prepared_for_unknown_pods_is_not_refused(tmp_path: Path) -> None:
    use = policy(
        tmp_path,
        "@bayplan.filter\ndef f(node, cluster):\n    return not cluster.pods_known or node.free['cpu'] > 0\n",
    )

    assert load_checked([use], Flags())[1] == []


def test_a_context_without_a_kubeconfig_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text("import bayplan\n\n@bayplan.filter\ndef f(node):\n    pass\n")

    with pytest.raises(ConfigError, match="give --kubeconfig too"):
        check([str(tmp_path / "policy.py")], Flags(context="prod"))


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        pytest.param("kubeconfig", True, id="a live cluster, of which nodes and pods are watched"),
        pytest.param("request", True, id="the nodes of a request"),
        pytest.param("snapshot", False, id="a file that has everything"),
    ],
)
def test_a_policy_about_volumes_is_refused_where_nobody_knows_them(
    source: str, refused: bool, tmp_path: Path
) -> None:
    path = tmp_path / "bayplan.yaml"
    file = "\n  snapshot: cluster.json" if source == "snapshot" else ""
    path.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies:\n- use: VolumeBinding\n"
        f"- use: NodeName\ncluster:\n  source: {source}{file}\n"
    )

    if refused:
        with pytest.raises(ConfigError, match="VolumeBinding: these look at volumes or images"):
            load_checked([], Flags(config=path))
    else:
        assert load_checked([], Flags(config=path))[1] == []


def test_two_policies_that_say_who_is_next_are_a_problem_with_the_places_of_both(tmp_path: Path) -> None:
    code = "import bayplan\n\n@bayplan.order\ndef {name}(pod):\n    return 1\n"
    files = []
    for name in ("mine", "yours"):
        (tmp_path / f"{name}.py").write_text(code.format(name=name))
        files.append(str(tmp_path / f"{name}.py"))

    _, problems = load_checked(files, Flags())

    (problem,) = problems
    assert "mine.py:3 mine (policy 'mine') and yours.py:3 yours (policy 'yours')" in problem


def _cluster(folder: Path, *nodes: dict[str, str], pod: dict[str, object] | None = None) -> Flags:
    """Nodes with these labels, and a pod on the first of them."""
    items: list[dict[str, object]] = [
        {"kind": "Node", "metadata": {"name": f"node-{number}", "labels": labels}}
        for number, labels in enumerate(nodes)
    ]
    items.append({"kind": "Pod", "metadata": pod or {"name": "p"}, "spec": {"nodeName": "node-0"}})
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": items}))
    return Flags(snapshot=folder / "cluster.json")


def test_a_label_that_no_node_has_is_a_hint_wherever_the_policy_names_it(tmp_path: Path) -> None:
    flags = _cluster(tmp_path, {"rack": "a", "disk": "ssd"}, {"rack": "b"})
    code = (
        "DISK = bayplan.Label('dsik')\n\n"
        "@bayplan.filter\ndef f(pod, nodes):\n"
        "    return (nodes[bayplan.Label('rakc')] != 'a') & (nodes[DISK] != 'hdd') & (nodes['zone'] != 'z')\n"
    )

    hints = check([policy(tmp_path, code)], flags).hints

    assert hints[:2] == [
        "policy 'policy' reads label 'dsik': no node of 2 has it; did you mean 'disk'?",
        "a policy reads label 'rakc': no node of 2 has it; did you mean 'rack'?",
    ]
    assert not [hint for hint in hints[2:] if "no node" in hint]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        pytest.param(
            "pod.metadata.annotations[?'example.com/max-prise'].orValue('') == ''",
            ["reads annotation 'example.com/max-prise' of the pod: no pod of 2 has it; did you mean"],
            id="an annotation of the given pod",
        ),
        pytest.param(
            "!('teem' in pod.metadata.labels)",
            ["reads label 'teem' of the pod: no pod of 2 has it; did you mean 'team'?"],
            id="a label of a pod of the cluster",
        ),
        pytest.param("!('team' in pod.metadata.labels)", [], id="a key that one pod has"),
        pytest.param("!('max-price' in pod.metadata.annotations)", [], id="a key without its domain"),
        pytest.param("!('gpus' in pod.metadata.labels)", [], id="a key like no other"),
    ],
)
def test_a_mistyped_key_of_a_pod_in_an_expression_is_a_hint(
    tmp_path: Path, rule: str, told: list[str]
) -> None:
    flags = _cluster(tmp_path, {"rack": "a"}, pod={"name": "p", "labels": {"team": "a"}})
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies:\n"
        f'  - {{name: rule, filter: "{rule}"}}\n'
    )
    given = make_pod("mine", annotations={"example.com/max-price": "0.3"})

    hints = [hint for hint in check([], replace(flags, config=config), pods=[given]).hints if "pod:" in hint]

    assert len(hints) == len(told)
    assert all(text in hint for hint, text in zip(hints, told, strict=True))


def test_the_labels_of_a_built_in_policy_are_looked_for_too(tmp_path: Path) -> None:
    flags = _cluster(tmp_path, {"rack": "a"}, {"rack": "b"})
    (tmp_path / "config.yaml").write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies:\n"
        "  - use: Spread\n    args: {pods: {}, by: [rack, zone], maxPerDomain: 1}\n"
    )

    hints = check([], replace(flags, config=tmp_path / "config.yaml")).hints

    assert hints == [
        "policy 'Spread' reads label 'topology.kubernetes.io/zone': no node of 2 has it",
        "policy 'Spread': refuses all 2 nodes of the cluster for each pod that was tried"
        ' ("node lacks label rack or zone")',
    ]


def test_a_label_that_is_no_number_is_a_hint(tmp_path: Path) -> None:
    flags = _cluster(tmp_path, {"price": "cheap"}, {"price": "2"}, {})
    code = "PRICE = bayplan.Label('price', float)\n\n@bayplan.score\ndef s(nodes):\n    return nodes[PRICE]\n"

    hints = check([policy(tmp_path, code)], flags).hints

    said = "'cheap' on node-0 cannot be read as a number; it counts as missing"
    assert hints[0] == f"policy 'policy' reads label 'price': {said}"


BEHIND_A_LABEL = {
    "filter": (
        "@bayplan.filter\ndef f(pod, node):\n"
        "    if 'gpu' not in pod.labels:\n        return None\n    return node.lables\n"
    ),
    "gang": (
        "@bayplan.gang\ndef f(pod):\n"
        "    if 'gpu' not in pod.labels:\n        return None\n    return pod.lables\n"
    ),
    "protect": (
        "@bayplan.protect\ndef f(pod, victim):\n"
        "    if 'gpu' not in victim.labels:\n        return None\n    return victim.lables\n"
    ),
}


@pytest.mark.parametrize("kind", BEHIND_A_LABEL)
@pytest.mark.parametrize("cluster", [False, True])
def test_a_hook_is_asked_about_the_pods_that_are_given(cluster: bool, kind: str, tmp_path: Path) -> None:
    use = policy(tmp_path, BEHIND_A_LABEL[kind])
    flags = _cluster(tmp_path, {}) if cluster else Flags()

    assert check([use], flags).problems == []
    (problem,) = check([use], flags, pods=[make_pod("mine", labels={"gpu": "a"})]).problems

    assert problem.startswith("policy.py:7 f: AttributeError: ")
    assert problem.endswith("(for pod default/mine)")


def test_a_hook_is_asked_about_the_pods_of_the_cluster(tmp_path: Path) -> None:
    flags = _cluster(tmp_path, {}, pod={"name": "trains", "namespace": "ml", "labels": {"gpu": "a"}})

    (problem,) = check([policy(tmp_path, BEHIND_A_LABEL["filter"])], flags).problems

    assert problem.endswith("(on node node-0) (for pod ml/trains)")


def test_pods_are_asked_about_only_where_the_policy_is_for_them(tmp_path: Path) -> None:
    policy(tmp_path, BEHIND_A_LABEL["filter"])
    config = tmp_path / "bayplan.yaml"
    config.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n"
        "policies: [{use: policy.py, for: {namespaces: [batch]}}]\n"
    )
    pods = [make_pod("mine", namespace=where, labels={"gpu": "a"}) for where in ("shop", "batch")]

    report = check([], Flags(config=config), pods=pods)

    (problem,) = report.problems
    assert problem.endswith("(for pod batch/mine)")
    assert report.tried_on.endswith("for a plain pod and 2 of yours, each where the policy is for it")


NOTHING = "GOOD = bayplan.Reason('nothing is good enough')\n\n@bayplan.filter\ndef f(pod, nodes):\n    {}\n"


def test_a_filter_that_refuses_every_node_to_every_pod_is_a_hint_and_not_to_be_faster(tmp_path: Path) -> None:
    use = policy(tmp_path, NOTHING.format("return GOOD.where(nodes['cpu.allocatable'] >= 0)"))

    assert check([use], _cluster(tmp_path, {}, {})).hints == [
        "policy.py:5 f: refuses all 2 nodes of the cluster for each pod that was tried"
        ' ("nothing is good enough")'
    ]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return GOOD.where(nodes['hostname'] != 'b')", id="one node passes"),
        pytest.param("return None if pod.labels else GOOD", id="one pod finds a node"),
    ],
)
def test_a_filter_that_lets_one_pod_go_somewhere_is_none_that_refuses_all(body: str, tmp_path: Path) -> None:
    nodes: list[dict[str, str]] = [{"kubernetes.io/hostname": name} for name in "ab"]
    flags = _cluster(tmp_path, *nodes, pod={"name": "p", "labels": {"app": "a"}})

    hints = check([policy(tmp_path, NOTHING.format(body))], flags).hints

    assert not [hint for hint in hints if "refuses" in hint]


def test_what_is_refused_for_made_up_values_of_a_source_may_pass_in_fact(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n"
        "sources: [{name: load, file: {path: load.json}}]\n"
        "policies: [{use: Load, args: {columns: [{source: load, refuseAbove: 0.5}]}}]\n"
    )

    report = check([], replace(_cluster(tmp_path, {}), config=tmp_path / "config.yaml"))

    assert report.problems == []
    assert report.hints == []


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        pytest.param("'ssd' in node.labels", True, id="refuses by false"),
        pytest.param("bool(node.name)", False, id="refuses nobody"),
        pytest.param("'no SSD'", False, id="says why"),
    ],
)
def test_a_filter_whose_name_is_its_reason_is_a_hint(returned: str, told: bool, tmp_path: Path) -> None:
    hints = check(
        [policy(tmp_path, f"@bayplan.filter\ndef f(pod, node):\n    return {returned}\n")], Flags()
    ).hints

    hint = 'policy.py:3 f: people will read "f" as the reason; return a Reason with a text'
    assert (hint in hints) == told


def _with_gpus(folder: Path) -> Flags:
    nodes = [
        {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", **extended}}}
        for name, extended in {"a": {"nvidia.com/gpu": "8"}, "b": {}}.items()
    ]
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "a"}}
    (folder / "gpus.json").write_text(json.dumps({"kind": "List", "items": [*nodes, pod]}))
    return Flags(snapshot=folder / "gpus.json")


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param("use: policy.py", id="in Python"),
        pytest.param("{name: few, score: \"column['nvidia.com/gpus.free']\"}", id="in CEL"),
        pytest.param("{use: MostAllocated, args: {resources: [{name: nvidia.com/gpus}]}}", id="in arguments"),
    ],
)
def test_a_resource_that_no_node_has_is_a_hint(entry: str, tmp_path: Path) -> None:
    policy(tmp_path, "@bayplan.score\ndef s(pod, nodes):\n    return nodes['nvidia.com/gpus.requested']\n")
    head = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies:\n"
    config = tmp_path / "bayplan.yaml"
    config.write_text(f"{head}- {entry}\n")
    flags = replace(_with_gpus(tmp_path), config=config)

    wrong = check([], flags).hints
    for file in (config, tmp_path / "policy.py"):
        file.write_text(file.read_text().replace("gpus", "gpu"))
    right = check([], flags).hints

    told = "reads resource 'nvidia.com/gpus': no node of 2 has it; did you mean 'nvidia.com/gpu'?"
    assert [hint.partition(" reads ")[0] for hint in wrong if told in hint] in (
        ["a policy"],
        ["policy 'MostAllocated'"],
    )
    assert not [hint for hint in right if "resource" in hint]


def test_a_gpu_is_not_taken_for_a_cpu_where_nodes_have_gpus(tmp_path: Path) -> None:
    use = policy(tmp_path, "@bayplan.score\ndef s(pod, nodes):\n    return nodes['gpu.free']\n")

    (problem,) = check([use], _with_gpus(tmp_path)).problems

    assert "no column 'gpu.free'; did you mean 'nvidia.com/gpu.free'?" in problem
