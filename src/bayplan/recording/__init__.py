"""Recordings: what a server was asked, what it saw, what it said; in one file that can be run again."""
