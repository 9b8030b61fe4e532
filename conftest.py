"""For every test: the real control plane, started only where it is asked for, and patient generators."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.controlplane.fixtures"]

# How fast examples are made says something about the machine, and nothing about what is tested.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
