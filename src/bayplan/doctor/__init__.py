"""What is wrong with a kube-scheduler's configuration, or with a cluster, before it bites."""
