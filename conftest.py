"""Fixtures for every test: the real control plane, started only by tests that ask for it."""

pytest_plugins = ["tests.controlplane.fixtures"]
