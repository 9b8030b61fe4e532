"""The index of placed pods' terms survives a deadline at any moment."""

from typing import Any

import pytest

from bayplan import Pod
from bayplan.policies.default_profile.placed_terms import PlacedTerms, Relation
from bayplan.snapshot.tally import PodKinds
from bayplan.testing import make_pod

EVERY = frozenset(Relation)


def placed(app: str, *, twice: bool = False) -> Pod:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * (2 if twice else 1)}
    return make_pod(labels={"app": app}, spec={"affinity": {"podAntiAffinity": required}})


def meant(kinds: PodKinds) -> list[tuple[str, list[int]]]:
    found = PlacedTerms.of(kinds, len(kinds)).meaning(
        make_pod(labels={"app": "web"}), {}, relations=EVERY, count=len(kinds)
    )
    return [(matched.topology_key, sorted(matched.kinds.tolist())) for matched in found]


def kinds_of(*pods: Pod) -> PodKinds:
    kinds = PodKinds()
    for pod in pods:
        kinds.number(pod)
    return kinds


@pytest.mark.parametrize("after", range(6))
def test_a_deadline_in_the_middle_counts_nothing_twice_and_loses_nothing(
    after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [placed("one"), placed("two", twice=True), placed("three")]
    kinds = kinds_of(*pods)
    left = [after]
    real = PlacedTerms._take

    def interrupted(number: int, groups: list[Any]) -> None:
        real(number, groups[: left[0]])
        if left[0] < len(groups):
            raise KeyboardInterrupt
        left[0] -= len(groups)

    monkeypatch.setattr(PlacedTerms, "_take", staticmethod(interrupted))
    if after < 4:
        with pytest.raises(KeyboardInterrupt):
            PlacedTerms.of(kinds, len(kinds))
    monkeypatch.setattr(PlacedTerms, "_take", staticmethod(real))

    assert meant(kinds) == meant(kinds_of(*pods)) == [("zone", [0, 1, 1, 2])]
