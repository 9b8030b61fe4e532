"""Expressions in CEL: compiled, checked against what Bayplan keeps, and run once a distinct value."""
