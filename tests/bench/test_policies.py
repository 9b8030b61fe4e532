"""The benchmark of policies runs, and leaves no built-in out."""

import re

import pytest

from bayplan.policies import BUILT_INS
from bench import policies
from bench.world import World


def test_every_built_in_has_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["policies", "--nodes", "40", "--pods", "200", "--rounds", "2"])

    policies.main()

    printed = capsys.readouterr().out
    lines = re.findall(r"^\| ([^|]+) (?:\| [\d.]+ ){4}\|$", printed, re.MULTILINE)
    assert {*BUILT_INS, *policies.HEAVY, *policies.EXPRESSIONS, "the first ten together"} <= set(lines)
    assert re.search(r"^\| the web service's answer, [^|]+ \| [\d.]+ \| [\d.]+ \|$", printed, re.MULTILINE)


def test_no_two_calls_are_about_the_same() -> None:
    asked = []
    with World(nodes=3, pods=5) as world:
        for _ in range(4):
            world.prepare_answer()
            asked.append((pod := world.next_pod(), world.ask(pod).by_source["service"]))

    assert len({pod.uid for pod, _ in asked}) == 4
    assert len({pod.labels["app"] for pod, _ in asked}) == 4
    assert len({str(reading.fields["score"]) for _, reading in asked}) == 4


def test_a_bind_makes_another_table() -> None:
    with World(nodes=3, pods=5) as world:
        pod = world.next_pod()
        readings = world.ask(pod)
        before = world.question(pod, readings).cluster.nodes.count().sum()

        world.bind()

        assert world.question(pod, readings).cluster.nodes.count().sum() == before + 1
