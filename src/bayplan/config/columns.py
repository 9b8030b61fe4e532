"""The columns that policies can read, for ``bayplan columns``."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from bayplan.config.cluster import take_snapshot
from bayplan.config.flags import Flags, load_all
from bayplan.config.made_up import example_cluster
from bayplan.snapshot.describe import ColumnInfo, describe
from bayplan.snapshot.sources import Latch, Reading, Readings, Source
from bayplan.snapshot.table import NodeTable
from bayplan.state.sources.asker import Asked
from bayplan.state.sources.book import Declared, Sources, Watchers
from bayplan.state.sources.threads import run_apart


def describe_columns(files: Sequence[str], flags: Flags) -> list[ColumnInfo]:
    """All named columns, and the typed columns that policies declare.

    With a cluster, sources are polled once, since their names of nodes are easily mistaken.
    """
    loaded = load_all(files, flags)
    snapshot = take_snapshot(loaded)
    readings = Readings({each.name: Reading({}) for each in loaded.sources})
    problems: dict[str, str] = {}
    if snapshot is not None and loaded.sources:
        answers, problems = run_apart(_ask_once(loaded.sources, snapshot.nodes))
        readings = readings.with_readings(answers.by_source)
    declared = list({column: None for policy in loaded.policies for column in policy.columns})
    nodes = (snapshot or example_cluster(0)).with_readings(readings).nodes
    infos = describe(nodes, declared, example=snapshot is None)
    named = infos[: len(infos) - len(declared)]
    return named + [
        _with(problems, column, info) for column, info in zip(declared, infos[len(named) :], strict=True)
    ]


def _with(problems: Mapping[str, str], column: object, info: ColumnInfo) -> ColumnInfo:
    """The line, with the problem of its source instead of values."""
    problem = problems.get(column.source, "") if isinstance(column, Source | Latch) else ""
    return msgspec.structs.replace(info, values=problem) if problem else info


async def _ask_once(declared: Sequence[Declared], nodes: NodeTable) -> tuple[Readings, dict[str, str]]:
    """The readings of the sources, and the problems of those without values for these nodes."""
    sources = Sources(declared, watchers=Watchers(nodes=lambda: nodes))
    try:
        await asyncio.gather(*(poller.ask() for poller in sources.polled.values()))
    finally:
        await sources.close()
    silent = {each.name: "asked about each pod" for each in declared if isinstance(each.source, Asked)}
    wrong = {name: poller.error or poller.misfit for name, poller in sources.polled.items()}
    return sources.current, {**silent, **wrong}
