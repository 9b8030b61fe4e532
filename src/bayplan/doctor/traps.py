"""Every trap that is known, by its id: what `docs/reference/doctor.md` explains."""

from collections.abc import Mapping

from bayplan.doctor import (
    traps_of_clusters,
    traps_of_entries,
    traps_of_files,
    traps_of_pods,
    traps_of_policies,
    traps_of_tls,
)
from bayplan.doctor.finding import Trap

_ROOMS = (traps_of_files, traps_of_entries, traps_of_tls, traps_of_policies, traps_of_pods, traps_of_clusters)
TRAPS: Mapping[str, Trap] = {trap.id: trap for room in _ROOMS for trap in room.ALL}
