"""Pods of one namespace are never evicted."""

import bayplan


@bayplan.protect
def keep_shop(pod: bayplan.Pod, victim: bayplan.Pod) -> bool:
    return victim.namespace == "shop"
