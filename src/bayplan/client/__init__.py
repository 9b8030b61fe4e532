"""The only room that talks to the API server."""
