"""What this scheduler cannot do yet: bind a volume to a claim which waits for its first pod.

kube-scheduler writes the chosen node on such a claim and waits for the volume. A pod that was bound without
that would wait on its node for ever, so it is better refused with a reason.
"""

import numpy as np

from bayplan.authoring.hooks import filter
from bayplan.authoring.load import Definition
from bayplan.authoring.verdict import Reason, Verdict
from bayplan.kube.pod import Pod
from bayplan.policies.default_profile.claims import claim_name
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.table import NodeTable

UNBOUND = Reason(
    "Bayplan does not bind volumes: a claim of the pod has no volume yet",
    of_pod=True,
    helped_by=frozenset({"PersistentVolumeClaim"}),
)


@filter
def unbound_claims(pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
    """Refuse a pod with a claim that has no volume."""
    names = [name for volume in pod.volumes if (name := claim_name(pod, volume)) is not None]
    claims = (cluster.objects.claims.get(f"{pod.namespace}/{name}") for name in names)
    if all(claim is None or claim.spec.volume_name for claim in claims):
        return None
    return UNBOUND.where(np.ones(len(nodes), dtype=np.bool_))


UNBOUND_CLAIMS = Definition("UnboundClaims", (("unbound_claims", unbound_claims),), None, ()).make()
"""The rule as a policy, to be asked after all others."""
