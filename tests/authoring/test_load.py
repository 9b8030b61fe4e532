"""Policies are found in files, modules and classes; what is wrong with them is said at once."""

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest

from bayplan import PolicyError
from bayplan.authoring.load import Definition, load
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

RULE = """
import bayplan

@bayplan.filter
def rule(pod, node):
    return "no"
"""


def write(folder: Path, content: str, name: str = "policy.py") -> str:
    path = folder / name
    path.write_text(dedent(content))
    return str(path)


def only(use: str) -> Definition:
    (definition,) = load(use)
    return definition


def test_the_loose_hooks_of_a_file_are_one_policy_named_after_it(tmp_path: Path) -> None:
    use = write(
        tmp_path,
        """
        import bayplan

        @bayplan.filter
        def has_label(pod, node):
            if "example-label" not in node.labels:
                return "node lacks example-label"

        @bayplan.score
        def by_last_digit(pod, node):
            return int(node.name[-1])
        """,
        "my-rules.py",
    )

    policy = only(use).make()

    assert policy.name == "my-rules"
    assert [(hook.name, hook.spec.kind) for hook in policy.hooks] == [
        ("has_label", "filter"),
        ("by_last_digit", "score"),
    ]
    assert policy.hooks[0].title == "my-rules.py:4 has_label"


def test_a_class_is_a_policy_of_its_own(tmp_path: Path) -> None:
    use = write(
        tmp_path,
        f"""{RULE}
@bayplan.policy
class Second:
    @bayplan.score
    def liked(self, node):
        return 1
""",
    )

    assert [definition.name for definition in load(use)] == ["policy", "Second"]
    assert [definition.name for definition in load(f"{use}:Second")] == ["Second"]


def test_one_hook_is_taken_by_name_with_what_the_file_prepares(tmp_path: Path) -> None:
    use = write(
        tmp_path,
        """
        import bayplan

        @bayplan.prepare
        def ready(pod):
            return 7

        @bayplan.filter
        def first(node):
            return "no"

        @bayplan.score(range=(0, 100))
        def second(node, prepared):
            return prepared
        """,
    )

    policy = only(f"{use}:second").make()
    result = run_policy(policy, make_pod(), make_cluster(["a"]))

    assert [hook.name for hook in policy.hooks] == ["ready", "second"]
    assert result.scores == pytest.approx({"a": 7.0})


def test_a_relative_file_is_looked_for_beside_the_configuration(tmp_path: Path) -> None:
    write(tmp_path, RULE)

    assert [definition.name for definition in load("policy.py", base=tmp_path)] == ["policy"]


def test_columns_that_a_file_names_are_known(tmp_path: Path) -> None:
    use = write(tmp_path, RULE + '\nPRICE = bayplan.Label("price", float)\n')

    assert [column.title for column in only(use).make().columns] == ["Label('price')"]


def test_a_policy_may_import_the_files_beside_it(tmp_path: Path) -> None:
    write(tmp_path, "WORD = 'from the neighbour'", "a_neighbour_file.py")
    use = write(
        tmp_path,
        """
        import bayplan
        from a_neighbour_file import WORD

        @bayplan.filter
        def rule(node):
            return WORD
        """,
    )

    assert run_policy(use, make_pod(), make_cluster(["a"])).refused == {"a": "from the neighbour"}


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    use = write(tmp_path, RULE)
    load(use)
    write(tmp_path, RULE.replace('"no"', '"hm"'))

    assert run_policy(use, make_pod(), make_cluster(["a"])).refused == {"a": "hm"}


def test_nothing_is_written_beside_the_file(tmp_path: Path) -> None:
    load(write(tmp_path, RULE))

    assert [path.name for path in tmp_path.iterdir()] == ["policy.py"]


def test_hooks_that_a_file_imports_are_not_its_own(tmp_path: Path) -> None:
    write(tmp_path, RULE, "a_library_of_rules.py")
    use = write(tmp_path, RULE.replace("rule", "own") + "\nfrom a_library_of_rules import rule\n")

    assert [hook.name for hook in only(use).make().hooks] == ["own"]


def test_a_policy_in_a_module_is_loaded_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, RULE, "an_importable_policy.py")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert only("an_importable_policy:rule").name == "rule"
    assert only("an_importable_policy").name == "an_importable_policy"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(
            "", r"policy\.py: no policy in it; decorate a function with @bayplan\.filter", id="no hooks"
        ),
        pytest.param("x = 1\ndef f(:\n", r"policy\.py:2: invalid syntax", id="a syntax error"),
        pytest.param(
            "x = 1\n\ny = 1 / 0\n", r"policy\.py:3: ZeroDivisionError: division by zero", id="an error"
        ),
        pytest.param(
            "def broken():\n    raise OSError('no')\n\nbroken()\n",
            r"policy\.py:2: OSError: no",
            id="an error inside a function of the file",
        ),
        pytest.param(
            "import json\n\njson.loads('{')\n", r"policy\.py:3: JSONDecodeError", id="an error in a library"
        ),
        pytest.param(
            "import nothing_of_that_name", r"policy\.py:1: ModuleNotFoundError", id="a missing module"
        ),
        pytest.param("import sys\nsys.exit(3)\n", r"policy\.py:2: SystemExit: 3", id="a file that exits"),
        pytest.param(
            "class Shy(Exception):\n    def __str__(self): raise SystemExit\n\nraise Shy\n",
            r"policy\.py:4: Shy: \(its text cannot be printed\)",
            id="an error that cannot be printed",
        ),
        pytest.param(
            "raise ValueError('half a pair \\ud800' + 'x' * 10000)\n",
            r"policy\.py:1: ValueError: half a pair \?x+…$",
            id="an error that is long and that JSON cannot hold",
        ),
        pytest.param(
            "import bayplan\n\n@bayplan.filter\ndef rule(pdo, node): ...\n",
            r"policy\.py:3 rule: unknown parameter 'pdo'; did you mean 'pod'\?",
            id="an unknown parameter",
        ),
        pytest.param(
            "import bayplan\n@bayplan.filter\ndef rule(node, nodes): ...\n",
            r"policy\.py:2 rule: take either `node`",
            id="both node and nodes",
        ),
        pytest.param(
            "import bayplan\n@bayplan.filter\nasync def rule(node): ...\n",
            r"policy\.py:2 rule: a hook is a plain function",
            id="an async hook",
        ),
        pytest.param(
            "import bayplan\n@bayplan.filter\ndef rule(node, *args): ...\n",
            r"policy\.py:2 rule: name each parameter; \*args",
            id="a star",
        ),
        pytest.param(
            "import bayplan\n@bayplan.policy\nclass Empty: ...\n",
            r"policy\.py:2 Empty: no method has a hook",
            id="a class without hooks",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_where(tmp_path: Path, content: str, complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        load(write(tmp_path, content))


def test_a_file_that_failed_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(sys.modules)

    with pytest.raises(PolicyError):
        load(write(tmp_path, "raise OSError"))

    assert not {name for name in set(sys.modules) - before if name.startswith("bayplan_policy_")}


@pytest.mark.parametrize(
    ("member", "complaint"),
    [
        pytest.param("ruel", r"no policy 'ruel' in that file; did you mean 'rule'\?", id="a typo"),
        pytest.param("bayplan", "no policy 'bayplan' in that file; known here: rule", id="no policy at all"),
    ],
)
def test_an_unknown_member_is_an_error_with_a_suggestion(tmp_path: Path, member: str, complaint: str) -> None:
    use = write(tmp_path, RULE)

    with pytest.raises(PolicyError, match=complaint):
        load(f"{use}:{member}")


@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        pytest.param("missing.py", "missing.py: no such file; `bayplan init` writes", id="a missing file"),
        pytest.param(
            "no_module_of_that_name", "no policy 'no_module_of_that_name'; .*want a built-in", id="a word"
        ),
        pytest.param("SharedResuorce", "did you mean 'SharedResource'", id="a mistyped built-in"),
        pytest.param("no_package.inside:Name", "no policy 'no_package.inside'", id="a missing package"),
        pytest.param("json", "no policy in it", id="a module without policies"),
        pytest.param("", "Empty module name", id="nothing"),
    ],
)
def test_what_cannot_be_found_is_an_error(use: str, complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        load(use)


def test_a_file_without_its_ending_is_suggested_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, RULE, "rack_rule.py")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(PolicyError, match=r"no policy 'rack_rule'; did you mean 'rack_rule.py'\?$"):
        load("rack_rule")


def test_a_file_that_is_no_python_is_not_taken_for_a_name(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")

    with pytest.raises(PolicyError, match=r"cluster.json is no policy: want a Python file"):
        load("cluster.json", base=tmp_path)


def test_a_module_that_imports_a_missing_one_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "import lonely", "lonely_policy.py")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(PolicyError, match="lonely_policy: it imports 'lonely', which is not installed"):
        load("lonely_policy")


WITH_ARGS = """
import bayplan

class LimitArgs(bayplan.Args):
    cpu_limit: int = 5

@bayplan.filter
def rule(node, args: LimitArgs):
    return f"limit {args.cpu_limit}"
"""


@pytest.mark.parametrize(
    "head",
    [pytest.param("", id="annotations"), pytest.param("from __future__ import annotations\n", id="texts")],
)
@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(None, "limit 5", id="the default"),
        pytest.param({"cpuLimit": 8}, "limit 8", id="what the configuration says"),
    ],
)
def test_arguments_reach_the_hook(tmp_path: Path, head: str, args: dict[str, Any] | None, said: str) -> None:
    use = write(tmp_path, head + WITH_ARGS)

    assert run_policy(use, make_pod(), make_cluster(["a"]), args=args).refused == {"a": said}


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        pytest.param(
            {"cpuLimit": "much"}, r"Expected `int`, got `str` - at `\$.cpuLimit`", id="a wrong type"
        ),
        pytest.param({"cpu_limit": 1}, "unknown field `cpu_limit`", id="a name in another spelling"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error(tmp_path: Path, args: dict[str, Any], complaint: str) -> None:
    definition = only(write(tmp_path, WITH_ARGS))

    with pytest.raises(msgspec.ValidationError, match=complaint):
        definition.make(args=args)


def test_arguments_for_a_policy_that_takes_none_are_an_error(tmp_path: Path) -> None:
    told = "policy takes no args, but args are given: limit; .*parameter `args`, annotated with"
    with pytest.raises(PolicyError, match=told):
        only(write(tmp_path, RULE)).make(args={"limit": 1})


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param("", id="no annotation"),
        pytest.param(": dict", id="a class that is no Args"),
        pytest.param(": 'Args | None'", id="a class or nothing"),
    ],
)
def test_arguments_need_their_class(tmp_path: Path, annotation: str) -> None:
    content = (
        f"import bayplan\nfrom bayplan import Args\n@bayplan.filter\ndef rule(node, args{annotation}): ...\n"
    )

    with pytest.raises(PolicyError, match=r"policy\.py:3 rule: `args` needs its class, as in `args: MyArgs`"):
        only(write(tmp_path, content)).make()


def test_an_annotation_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    content = "import bayplan\n@bayplan.filter\ndef rule(node, args: 'Nowhere'): ...\n"

    with pytest.raises(PolicyError, match=r"policy\.py:2: cannot read the type of args: name 'Nowhere'"):
        only(write(tmp_path, content)).make()


TWO_KINDS_OF_ARGS = """
import bayplan

class Near(bayplan.Args):
    metres: int = 1

class Far(bayplan.Args):
    miles: int = 2

@bayplan.filter
def near(node, args: Near):
    return f"{args.metres} m"

@bayplan.filter
def far(node, args: Far):
    return f"{args.miles} mi"
"""


def test_hooks_of_one_file_share_one_class_of_arguments(tmp_path: Path) -> None:
    use = write(tmp_path, TWO_KINDS_OF_ARGS)

    with pytest.raises(PolicyError, match=r"hooks take different arguments \(Far and Near\)"):
        only(use).make()


def test_hooks_taken_one_by_one_have_arguments_of_their_own(tmp_path: Path) -> None:
    use = write(tmp_path, TWO_KINDS_OF_ARGS)

    assert run_policy(f"{use}:far", make_pod(), make_cluster(["a"]), args={"miles": 9}).refused == {
        "a": "9 mi"
    }


CLASSES = """
import bayplan

class BigArgs(bayplan.Args):
    cpu: int = 2

@bayplan.policy
class ByConstructor:
    def __init__(self, args: BigArgs) -> None:
        self.cpu = args.cpu

    @bayplan.filter
    def rule(self, node):
        return f"wants {self.cpu}"

@bayplan.policy
class Inherited(ByConstructor):
    pass

@bayplan.policy
class ByMethod:
    @bayplan.filter
    def rule(self, node, args: BigArgs):
        return f"wants {args.cpu}"

@bayplan.policy
class Greedy:
    def __init__(self, args: BigArgs, more) -> None: ...

    @bayplan.filter
    def rule(self, node): ...

@bayplan.policy
class Failing:
    def __init__(self) -> None:
        raise OSError("no such table")

    @bayplan.filter
    def rule(self, node): ...
"""


@pytest.mark.parametrize(
    "head",
    [pytest.param("", id="annotations"), pytest.param("from __future__ import annotations\n", id="texts")],
)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("ByConstructor", id="the constructor takes them"),
        pytest.param("Inherited", id="an inherited constructor takes them"),
        pytest.param("ByMethod", id="a method takes them"),
    ],
)
def test_arguments_reach_a_class(tmp_path: Path, head: str, name: str) -> None:
    use = f"{write(tmp_path, head + CLASSES)}:{name}"

    assert run_policy(use, make_pod(), make_cluster(["a"])).refused == {"a": "wants 2"}
    assert run_policy(use, make_pod(), make_cluster(["a"]), args={"cpu": 7}).refused == {"a": "wants 7"}


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        pytest.param("Greedy", r"Greedy: __init__ may take `args` and nothing else", id="too many arguments"),
        pytest.param("Failing", r"Failing: OSError: no such table", id="a constructor that fails"),
    ],
)
def test_a_class_that_cannot_be_made_is_an_error(tmp_path: Path, name: str, complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        only(f"{write(tmp_path, CLASSES)}:{name}").make()


def test_a_policy_is_made_with_what_the_configuration_says(tmp_path: Path) -> None:
    policy = only(write(tmp_path, RULE)).make(name="renamed", weight=3, failure_policy="Ignore")

    assert (policy.name, policy.weight, policy.failure_policy) == ("renamed", 3, "Ignore")
    assert [hook.policy for hook in policy.hooks] == ["renamed"]


def test_a_decorated_function_is_loaded_with_its_node(tmp_path: Path) -> None:
    use = write(tmp_path, RULE)

    assert run_policy(use, make_pod(), make_cluster([make_node("a"), "b"])).refused == {"a": "no", "b": "no"}


@pytest.mark.parametrize("use", [".", "..", "./", "rules", "rules/"])
def test_a_directory_is_no_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    inside = tmp_path / "here"
    (inside / "rules").mkdir(parents=True)
    monkeypatch.chdir(inside)

    with pytest.raises(PolicyError, match=r"is a directory; give a file, such as policy\.py$"):
        load(use)


def test_the_policy_in_a_directory_is_suggested(tmp_path: Path) -> None:
    use = write(tmp_path, RULE)

    with pytest.raises(PolicyError, match=f"^{tmp_path} is a directory; give a file, such as {use}$"):
        load(str(tmp_path))


@pytest.mark.parametrize("use", ["bayplan.yaml", "some/where.yml"])
def test_a_configuration_is_no_policy(use: str) -> None:
    with pytest.raises(PolicyError, match=f"^{use} is not a policy; did you mean --config {use}\\?$"):
        load(use)


def test_a_class_with_hooks_that_is_no_policy_is_told(tmp_path: Path) -> None:
    use = write(
        tmp_path, f"{RULE}\nclass Plain:\n    @bayplan.score\n    def liked(self, node):\n        return 1\n"
    )

    with pytest.raises(PolicyError, match=r"policy.py:\d+ Plain: it has the hook 'liked'.*@bayplan.policy"):
        load(use)


def test_what_a_policy_is_made_of_need_not_be_one(tmp_path: Path) -> None:
    use = write(
        tmp_path,
        """
import bayplan

class Part:
    @bayplan.score
    def liked(self, node):
        return 1

@bayplan.policy
class Whole(Part):
    pass
""",
    )

    assert [definition.name for definition in load(use)] == ["Whole"]


@pytest.mark.parametrize("indent", ["", "    "], ids=["in the file", "in a class"])
def test_of_two_hooks_of_one_name_none_is_lost_without_a_word(tmp_path: Path, indent: str) -> None:
    me = "self, " if indent else ""
    hooks = f"{indent}@bayplan.filter\n{indent}def same({me}node):\n{indent}    return True\n"
    head = "@bayplan.policy\nclass Both:\n" if indent else ""
    use = write(tmp_path, f"import bayplan\n{head}{hooks}{hooks}")

    with pytest.raises(PolicyError, match=r"policy.py:\d+ same: a hook of this name is in line \d+"):
        load(use)


def test_a_file_that_forgot_the_import_is_told_so(tmp_path: Path) -> None:
    use = write(tmp_path, "@bayplan.filter\ndef f(node):\n    return True\n")

    with pytest.raises(PolicyError, match=r"policy.py:1: NameError: .*; add the line `import bayplan`$"):
        load(use)


def test_a_function_with_self_is_told(tmp_path: Path) -> None:
    use = write(tmp_path, "import bayplan\n\n@bayplan.filter\ndef f(self, node):\n    return True\n")

    with pytest.raises(PolicyError, match=r"policy.py:\d+ f: a function has no `self`; leave it out"):
        load(use)


def test_a_method_without_self_is_told(tmp_path: Path) -> None:
    method = "    @bayplan.filter\n    def f(node):\n        return True\n"
    use = write(tmp_path, f"import bayplan\n\n@bayplan.policy\nclass P:\n{method}")

    with pytest.raises(PolicyError, match=r"policy.py:\d+ P.f: a method takes `self` first"):
        load(use)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("@bayplan.score(wieght=2)", "'wieght'; did you mean 'weight'?", id="of a score"),
        pytest.param("@bayplan.filter(rechek=True)", "'rechek'; did you mean 'recheck'?", id="of a filter"),
        pytest.param("bayplan.Reason('no', detial='x')", "'detial'; did you mean 'detail'?", id="a reason"),
    ],
)
def test_an_option_that_there_is_not_is_told_with_the_nearest(line: str, said: str, tmp_path: Path) -> None:
    file = write(tmp_path, f"import bayplan\n{line}\ndef f(pod, node):\n    return None\n")

    with pytest.raises(PolicyError, match=r"policy\.py:2: TypeError: .* keyword argument ") as told:
        load(file)
    assert str(told.value).endswith(said)
