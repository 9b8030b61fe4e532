"""The simulator door: asks policies about a manifest, or about recorded requests, without a server.

- `manifest`, `admitted`: the pod of a manifest, completed as the API server would.
- `evaluate`, `try_gang`: where that pod, or its gang, would go.
- `cases`: the questions of a recording. `judge`: what policies say to one of them.
- `replay`: asks all of them again, and compares the answers byte for byte.
- `compare`, `report`, `plots`: two configurations on one recording, as a page.
- `export`: a recorded decision as a test.
"""
