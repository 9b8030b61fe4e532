"""Turns the configuration into policies that are ready to run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from bayplan.authoring.expression import KINDS, Expression, ExpressionError, from_expressions
from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.load import load
from bayplan.authoring.registry import Policy
from bayplan.config.load import ConfigError, explain, in_words, place
from bayplan.config.v1 import BayplanConfiguration, PolicyEntry
from bayplan.kube.yaml import Document


def assemble(config: BayplanConfiguration, document: Document) -> list[Policy]:
    """The policies that a configuration names, in its order."""
    base = Path(document.source).parent
    policies: list[Policy] = []
    for number, entry in enumerate(config.policies):
        path = ("policies", number)
        try:
            made = [_write(entry, document, path)] if entry.use is None else _make(entry, base)
            _add(policies, [replace(policy, shadow=entry.shadow) for policy in made])
        except ExpressionError as error:
            raise ConfigError(f"{place(document, (*path, error.kind))}: {error}") from error
        except PolicyError as error:
            raise ConfigError(f"{document.source}:{document.line(path)}: {error}") from error
        except _BadArgs as error:
            raise explain(error.error, document, error.schema, base=(*path, "args")) from error.error
    return policies


def from_files(uses: Sequence[str]) -> list[Policy]:
    """The policies of files given on the command line, with their default arguments."""
    policies: list[Policy] = []
    for use in uses:
        for definition in load(use):
            try:
                _add(policies, [definition.make()])
            except msgspec.ValidationError as error:
                wrong = in_words(str(error))
                raise PolicyError(
                    f"{use}: {definition.name} needs arguments: {wrong}; give them in a file, --config"
                ) from error
    return policies


class _BadArgs(Exception):
    def __init__(self, error: msgspec.ValidationError, schema: type | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.schema = schema


def _write(entry: PolicyEntry, document: Document, path: tuple[str | int, ...]) -> Policy:
    """The policy of an entry with expressions."""
    texts = {kind: text for kind in KINDS if (text := getattr(entry, kind)) is not None}
    file = Path(document.source).name
    return from_expressions(
        entry.name or "",
        {kind: Expression(text, f"{file}:{document.line((*path, kind))}") for kind, text in texts.items()},
        reason=entry.reason or "",
        weight=entry.weight,
        scope=entry.for_,
        failure_policy=entry.failure_policy,
    )


def _make(entry: PolicyEntry, base: Path) -> list[Policy]:
    found = load(entry.use or "", base=base)
    if len(found) > 1 and (entry.args or entry.name):
        names = ", ".join(f"{entry.use}:{definition.name}" for definition in found if definition.cls)
        raise PolicyError(f"{entry.use} has {len(found)} policies; name one, such as {names}")
    made = []
    for definition in found:
        try:
            made.append(
                definition.make(
                    name=entry.name,
                    args=entry.args,
                    weight=entry.weight,
                    scope=entry.for_,
                    failure_policy=entry.failure_policy,
                )
            )
        except msgspec.ValidationError as error:
            raise _BadArgs(error, definition.schema) from error
    return made


def _add(policies: list[Policy], made: list[Policy]) -> None:
    """Add policies; names must be unique, since metrics and messages use them."""
    for policy in made:
        if any(policy.name == known.name for known in policies):
            raise PolicyError(
                f"two policies are called {policy.name!r}; give one of them a `name` of its own"
            )
        policies.append(policy)
