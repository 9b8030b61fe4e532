"""Finds mistakes in a kube-scheduler's configuration or in a cluster, before they do harm."""
