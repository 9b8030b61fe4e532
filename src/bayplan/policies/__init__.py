"""The policies that come with Bayplan: a file or two each, on the public API only."""

BUILT_INS = {
    "Affinity": "bayplan.policies.affinity",
    "BalancedAllocation": "bayplan.policies.balanced_allocation",
    "Cost": "bayplan.policies.cost",
    "ExternalService": "bayplan.policies.external_service",
    "LeastAllocated": "bayplan.policies.least_allocated",
    "Load": "bayplan.policies.load",
    "MostAllocated": "bayplan.policies.most_allocated",
    "MostAvailableCPU": "bayplan.policies.most_available_cpu",
    "Preemption": "bayplan.policies.preemption",
    "ResourceLimits": "bayplan.policies.resource_limits",
    "SharedResource": "bayplan.policies.shared_resource",
    "Spread": "bayplan.policies.spread",
}
