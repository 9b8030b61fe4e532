"""A made-up cluster and a caller like kube-scheduler, to see Bayplan work without a cluster."""
