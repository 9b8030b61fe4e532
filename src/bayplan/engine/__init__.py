"""Evaluates policies over a node table and writes down why. No I/O, no wire format."""
