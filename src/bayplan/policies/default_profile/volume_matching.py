"""Which of the volumes that are there each claim of a pod would get, node by node."""

from collections.abc import Iterable, Sequence

import numpy as np

from bayplan import NodeTable
from bayplan.blocks import PersistentVolume, PersistentVolumeClaim
from bayplan.policies.default_profile.claims import class_of
from bayplan.policies.default_profile.reach import Bools, Numbers, reachable_from
from bayplan.policies.default_profile.volume_offers import Form, Offer, Offers, storage_of, volume_affinity

NO_VOLUME = -1
ITS_OWN = -2
"""The volume that is kept for the claim."""


def match_claims(nodes: NodeTable, claims: Sequence[PersistentVolumeClaim], offers: Offers) -> list[Numbers]:
    """What each claim gets on each node: one of the class' free volumes, `ITS_OWN` or `NO_VOLUME`.

    A claim gets the volume that is kept for it, or none; without one, the smallest that fits. No volume is
    given to two claims on one node.
    """
    picks: list[Numbers] = []
    for claim in claims:
        offer = offers.of(class_of(claim))
        earlier = list(zip(claims, picks, strict=False))
        taken = [pick for other, pick in earlier if class_of(other) == class_of(claim)]
        pick = _smallest(nodes, claim, offer, taken=taken, claims=len(claims))
        own = own_volume(claim, offer)
        if own is not None:
            # A claim that is mounted twice is here twice, and its second mount cannot have the same volume.
            given = _any_of(nodes, (pick == ITS_OWN for other, pick in earlier if other.key == claim.key))
            there = reachable_from(nodes, volume_affinity(own))
            pick = np.where(given, pick, np.where(there, ITS_OWN, NO_VOLUME))
        picks.append(pick)
    return picks


def own_volume(claim: PersistentVolumeClaim, offer: Offer) -> PersistentVolume | None:
    """The volume that is kept for the claim."""
    return next((each for each in offer.promised.get(claim.key, ()) if _kept_for(each, claim)), None)


def _any_of(nodes: NodeTable, masks: Iterable[Bools]) -> Bools:
    found = np.zeros(len(nodes), dtype=np.bool_)
    for mask in masks:
        found |= mask
    return found


def _kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is kept for this claim, and not a former one of its name, and suits it."""
    keeper, mine, its = volume.spec.claim_ref, Form.of(claim), Form.of(volume)
    return (
        keeper is not None
        and keeper.uid in ("", claim.uid)
        and storage_of(volume) >= storage_of(claim)
        and (mine.volume_mode, mine.attributes_class) == (its.volume_mode, its.attributes_class)
    )


def _smallest(
    nodes: NodeTable, claim: PersistentVolumeClaim, offer: Offer, *, taken: list[Numbers], claims: int
) -> Numbers:
    """On each node the smallest free volume that fits, can be reached and is not taken."""
    pick = np.full(len(nodes), NO_VOLUME, dtype=np.intp)
    fitting = _fitting(claim, offer)
    if not fitting.size:
        return pick
    rows, places = offer.places.pairs(nodes)
    # Of each place only so many can matter: whatever the pod's other claims take, one of these is left.
    firsts = _first_of_each_place(fitting, offer, count=claims)
    which = np.concatenate([first[places] for first in firsts])
    rows = np.tile(rows, claims)
    free = which != NO_VOLUME
    for earlier in taken:
        free &= earlier[rows] != which
    rows, which = rows[free], which[free]
    # The largest is written first: where several are for one node, the smallest stays.
    order = np.argsort(-which, kind="stable")
    pick[rows[order]] = which[order]
    return pick


def _fitting(claim: PersistentVolumeClaim, offer: Offer) -> Numbers:
    """Free volumes that the claim may have, the smallest first."""
    mine = Form.of(claim)
    agrees = [
        (form.volume_mode, form.attributes_class) == (mine.volume_mode, mine.attributes_class)
        and mine.access_modes <= form.access_modes
        for form in offer.forms
    ]
    fits = np.array(agrees, dtype=np.bool_)[offer.form_of] & (offer.sizes >= storage_of(claim))
    found = np.flatnonzero(fits)
    selector = claim.spec.selector
    if selector is None:
        return found
    chosen = [number for number in found.tolist() if selector.matches(offer.free[number].labels)]
    return np.array(chosen, dtype=np.intp)


def _first_of_each_place(fitting: Numbers, offer: Offer, *, count: int) -> list[Numbers]:
    """The smallest volume of each place, then the next one, and so on; `NO_VOLUME` where there is none."""
    by_place = fitting[np.argsort(offer.place_of[fitting], kind="stable")]
    places = offer.place_of[by_place]
    rank = np.arange(len(places)) - np.searchsorted(places, places)
    found = []
    for number in range(count):
        first = np.full(len(offer.places), NO_VOLUME, dtype=np.intp)
        first[places[rank == number]] = by_place[rank == number]
        found.append(first)
    return found
