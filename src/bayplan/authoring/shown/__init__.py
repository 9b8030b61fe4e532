"""What the source of a hook shows, so that nobody has to promise it."""
