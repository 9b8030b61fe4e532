"""CEL expressions: compiled, checked against the fields that Bayplan keeps, run once per distinct value."""
