"""Everything that changes while the server runs."""
