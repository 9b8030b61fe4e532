"""The extender door: the HTTP service that kube-scheduler asks."""
