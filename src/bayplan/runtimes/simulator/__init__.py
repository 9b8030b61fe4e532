"""The simulator door: what policies say of a manifest, or said, and would say, of what was recorded."""
