"""What a dry run says of reasons that people could not read, or that kube-scheduler could not count."""

import re
from pathlib import Path

import pytest

from bayplan.config.flags import Flags
from bayplan.runtimes.extender.check import check

_HEAD = """import bayplan

P95 = bayplan.Source("p95")


@bayplan.source(every="30s")
async def p95(http):
    return {}

"""


def _hints(tmp_path: Path, code: str) -> list[str]:
    file = tmp_path / "policy.py"
    file.write_text(_HEAD + code)
    report = check([str(file)], Flags())
    assert report.problems == []
    return report.hints


def _filter(reason: str) -> str:
    return (
        f"NO = bayplan.Reason({reason})\n@bayplan.filter\ndef f(pod, nodes):\n"
        "    free = nodes['cpu.allocatable']\n    return NO.where(nodes[P95] > 0, free=free)\n"
    )


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        pytest.param(
            _filter("'no', detail='{free:byte} left'"),
            'people will read "{free:byte} left" as it stands, since it cannot be filled in:'
            " Invalid format specifier.*; want a format of Python, or :bytes or :cpu",
            id="a format that there is not",
        ),
        pytest.param(
            _filter("'only {free} left'"),
            'people will read "only {free} left" as it stands: numbers are filled into `detail` alone',
            id="a number in the text",
        ),
        pytest.param(
            _filter("'no', helped_by={'source:p96'}"),
            "\"no\" is helped by 'source:p96', which the policy does not read; did you mean 'p95'?",
            id="a source that there is not",
        ),
        pytest.param(
            "@bayplan.filter\ndef f(pod, node):\n    return f'only {int(node.name[-1])} left'\n",
            '"only .* left" and "only .* left" are two reasons, and kube-scheduler counts equal ones: return'
            " a Reason with one text for all nodes, and the number in its `detail`",
            id="a text for each node",
        ),
    ],
)
def test_a_reason_that_is_hard_to_read_is_a_hint(code: str, hint: str, tmp_path: Path) -> None:
    found = _hints(tmp_path, code)

    told = hint if ".*" in hint else re.escape(hint)
    assert [one for one in found if re.fullmatch(rf"policy.py:\d+ f: {told}", one)] == found, found
    assert len(found) == 1


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param("'no', detail='{free:cpu} left', helped_by={'source:p95'}", id="all of it right"),
        pytest.param("'no {} is left, nor {', detail='{{free}}'", id="braces that nobody would fill in"),
    ],
)
def test_a_reason_that_reads_well_is_none(reason: str, tmp_path: Path) -> None:
    assert _hints(tmp_path, _filter(reason)) == []


def test_reasons_that_differ_in_words_are_two_reasons(tmp_path: Path) -> None:
    code = (
        "@bayplan.filter\ndef f(pod, node):\n"
        "    return 'the first' if node.name.endswith('0') else 'not the first'\n"
    )

    assert not [hint for hint in _hints(tmp_path, code) if "two reasons" in hint]
