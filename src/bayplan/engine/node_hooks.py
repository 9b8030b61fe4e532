"""What the hooks that look at single nodes say about every node, for pods that other hooks look further for.

One policy that reads pods is enough to rule a `Standing` out: its verdicts change with every pod. The hooks
beside it that promise ``reads="node"`` say the same as for the pod before. So a cycle takes their results
from here and calls only the others. The decision is the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import Struct

from bayplan.authoring.registry import Hook, Policy
from bayplan.engine.decision import Outcome
from bayplan.engine.hook_results import HookResults
from bayplan.snapshot.table import NodeTable


class NodeHooks(Struct, frozen=True, eq=False):
    """The results of these hooks for every node of the cluster, for pods of one kind."""

    results: Mapping[int, HookResults]
    """By ``id`` of the hook: a hook with unhashable arguments cannot be a key."""

    def outcome(self, hook: Hook, nodes: NodeTable) -> Outcome | None:
        """The hook's outcome for the nodes of a table; ``None`` if the hook must be called."""
        found = self.results.get(id(hook))
        return None if found is None else found.outcome(hook, nodes.rows)


def looks_at_node(hook: Hook) -> bool:
    """Whether it is a hard filter or a score that promises to look at one node alone."""
    return hook.spec.kind in ("filter", "score") and hook.spec.reads == "node"


def of_single_nodes(policies: Sequence[Policy]) -> list[Policy]:
    """These policies with the hooks whose results can be reused, without those that have none."""
    # What `prepare` returns may depend on the whole cluster; shadow policies see what the others left.
    able = [policy for policy in policies if not policy.shadow and not policy.of_kind("prepare")]
    found = [replace(policy, hooks=tuple(filter(looks_at_node, policy.hooks))) for policy in able]
    return [policy for policy in found if policy.hooks]
