"""What a cluster needs to run Bayplan, described once: for ``bayplan render`` and for the Helm chart."""
