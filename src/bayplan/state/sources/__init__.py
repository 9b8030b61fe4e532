"""Numbers from outside: collected in the background, so that no request waits for anybody."""
