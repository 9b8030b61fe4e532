"""The page of the default profile names every policy and every argument."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from bayplan.authoring.args import Args
from bayplan.authoring.load import load
from bayplan.policies.default_profile import DEFAULT_PROFILE

PAGE = (Path(__file__).parents[3] / "docs" / "policies" / "default-profile.md").read_text()
# A node affinity and a constraint are written as in a pod: Kubernetes' own pages say how.
AS_IN_A_POD = {"AddedAffinity", "DefaultConstraint"}


@pytest.mark.parametrize("name", DEFAULT_PROFILE)
def test_a_policy_and_its_arguments_are_on_the_page(name: str) -> None:
    (found,) = load(name)
    line = next((line for line in PAGE.splitlines() if line.startswith(f"| {name} | ")), "")

    assert line
    keys = list(_keys(found.schema)) if found.schema is not None else []
    assert [key for key in keys if not re.search(rf"`{key}`", line)] == []


def _keys(kind: Any) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        yield field.encode_name
        for inner in (field.type, *get_args(field.type)):
            rule = inner if isinstance(inner, type) else next(iter(get_args(inner)), None)
            if isinstance(rule, type) and issubclass(rule, Args) and rule.__name__ not in AS_IN_A_POD:
                yield from _keys(rule)
