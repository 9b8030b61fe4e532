"""The page: what was decided and why, for people with a browser, and for ``bayplan why``."""
