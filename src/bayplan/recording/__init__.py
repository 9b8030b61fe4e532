"""Recordings (requests, snapshots and answers of a server, to be replayed), and the journal on disk."""
