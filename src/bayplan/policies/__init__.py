"""The policies that come with Bayplan: one file each, on the public API only."""

BUILT_INS = {
    "SharedResource": "bayplan.policies.shared_resource",
}
