"""Extender v1 on the wire: bytes to messages and back. Go's names stop here."""
