"""Which volumes the claims of a pod get on the node that was chosen for it."""

from dataclasses import dataclass

from bayplan import NodeTable, Pod
from bayplan.blocks import Objects, PersistentVolume, PersistentVolumeClaim
from bayplan.policies.default_profile.claims import SELECTED_NODE, class_of
from bayplan.policies.default_profile.provisioning import makes_volumes
from bayplan.policies.default_profile.volume_binding import sort_claims
from bayplan.policies.default_profile.volume_matching import ITS_OWN, NO_VOLUME, match_claims, own_volume
from bayplan.policies.default_profile.volume_offers import Offers, storage_of


@dataclass(frozen=True)
class Picks:
    """What is to become of the claims that waited for the pod."""

    found: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    """Claims that get a volume which is there."""
    to_make: tuple[PersistentVolumeClaim, ...] = ()
    """Claims whose volume has to be made."""
    problem: str = ""
    """Why nothing can be picked, though it could a moment ago."""


def pick_volumes(pod: Pod, node: NodeTable, objects: Objects, offers: Offers) -> Picks:
    """What the pod's claims get; ``node`` is a table of that node alone."""
    claims = sort_claims(pod, objects)
    if claims.problem:
        return Picks(problem=claims.problem)
    # A claim that is mounted twice needs one volume all the same.
    waiting = {claim.key: claim for claim in claims.waiting}.values()
    to_make = [claim for claim in waiting if SELECTED_NODE in claim.annotations]
    choosing = sorted((claim for claim in waiting if SELECTED_NODE not in claim.annotations), key=storage_of)
    found: list[tuple[PersistentVolumeClaim, PersistentVolume]] = []
    for claim, pick in zip(choosing, match_claims(node, choosing, offers), strict=True):
        offer, number = offers.of(class_of(claim)), int(pick[0])
        own = own_volume(claim, offer)
        if number == ITS_OWN and own is not None:
            found.append((claim, own))
        elif number == NO_VOLUME:
            to_make.append(claim)
        else:
            found.append((claim, offer.free[number]))
    for claim in to_make:
        if not makes_volumes(claim, objects):
            return Picks(problem=f"the volume for claim {claim.key} is not there any more")
    return Picks(tuple(found), tuple(to_make))
