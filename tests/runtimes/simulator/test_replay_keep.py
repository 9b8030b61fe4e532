"""A recording of answers that were cut down is answered the same again, whosever turn it was."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.testing import make_node, make_pod
from tests.runtimes.simulator.desk import Desk, sent, sent_pod, write_config

NAMES = [f"node-{number}" for number in range(12)]


def cutting(folder: Path, **answer: Any) -> Desk:
    """A desk that answers so, with nodes."""
    desk = Desk(write_config(folder), folder / "r.jsonl")
    for name in NAMES:
        desk.cache.put_node(make_node(name, labels={"disk": "ssd"}).object)
    for key, value in answer.items():
        setattr(desk.verbs, key, value)
    desk.told = msgspec.structs.replace(desk.told, **answer)
    return desk


@pytest.mark.parametrize("keep", [1, 3])
def test_every_turn_of_a_pod_is_replayed_as_it_was(tmp_path: Path, keep: int) -> None:
    desk = cutting(tmp_path, keep=keep)
    dice = random.Random(7)
    told = []
    for step in range(30):
        pod = make_pod(f"p{step % 3}", uid=f"uid-{step % 3}", cpu="50m")
        names = dice.sample(NAMES, 10)
        if step % 4:
            body: Any = sent(pod, names)
        else:
            nodes = [{"metadata": {"name": name}} for name in names]
            body = {"Pod": sent_pod(pod), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
        told.append(desk.ask("filter", body))
        # As the server does once it has answered.
        desk.verbs.turns.told(pod.uid)

    found = desk.replayed()

    assert found.differences == []
    assert found.total == 30
    assert len(set(told)) > 3, "a pod that comes again is told others"


def test_a_turn_that_is_not_recorded_would_be_noticed(tmp_path: Path) -> None:
    desk = cutting(tmp_path, keep=1)
    for _ in range(2):
        desk.ask("filter", sent(make_pod("p", uid="uid", cpu="50m"), NAMES))
        desk.verbs.turns.told("uid")
    desk.recorder.close()
    lines = [json.loads(line) for line in desk.file.read_text().splitlines()]
    turns = [line.pop("turn", None) for line in lines if line["line"] == "asked"]
    desk.file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))

    assert turns == [None, 1]
    assert [each.number for each in desk.replayed().differences] == [2]


def test_reasons_that_were_left_out_are_left_out_again(tmp_path: Path) -> None:
    desk = cutting(tmp_path, refusals="whenNonePass")
    small = make_node("small", cpu="10m").object
    desk.cache.put_node(small)
    answer = json.loads(desk.ask("filter", sent(make_pod("p", uid="uid", cpu="50m"), [*NAMES, "small"])))

    assert answer["NodeNames"] == NAMES
    assert answer["FailedAndUnresolvableNodes"] == {}
    assert desk.replayed().differences == []


def test_a_pod_that_came_again_and_was_told_everything_is_told_everything_again(tmp_path: Path) -> None:
    desk = cutting(tmp_path, refusals="again")
    desk.cache.put_node(make_node("small", cpu="10m").object)
    question = sent(make_pod("p", uid="uid", cpu="50m"), [*NAMES, "small"])
    first = json.loads(desk.ask("filter", question))
    # As the server does once it has answered.
    desk.verbs.turns.told("uid")
    second = json.loads(desk.ask("filter", question))

    assert first["FailedAndUnresolvableNodes"] == {}
    assert list(second["FailedAndUnresolvableNodes"]) == ["small"]
    assert desk.replayed().differences == []


def test_another_configuration_is_asked_with_its_own_answer_section(tmp_path: Path) -> None:
    desk = cutting(tmp_path)
    desk.ask("filter", sent(make_pod("p", uid="uid", cpu="50m"), NAMES))
    config = desk.loaded.config
    answer = msgspec.structs.replace(config.extender.answer, keep=1)
    extender = msgspec.structs.replace(config.extender, answer=answer)
    other = replace(desk.loaded, config=msgspec.structs.replace(config, extender=extender))

    assert len(desk.replayed(other).differences) == 1
