"""The scheduler door: pods that name us as their scheduler, from the queue to their nodes.

Start: `run` (``bayplan schedule``) reads `options` and `profiles`, and runs a `serve.Server`.

A pod walks through:

- `inbox`: the watch adds the pod to the queue, and announces events.
- `queue`: ready, in backoff, or waiting for an event (`waiting`, `line`, `pauses`, `by_news`, `tickets`).
- `asking`, `lobby`: ``gate`` and ``order`` hooks, before a pod is ready.
- `loop`: takes the next pod, or a batch of them. `judge`: a node, or victims, in a policy thread.
- `gangs`: pods that are placed together (`naming`, `roster`, `band`, `gang_judge`, `gang_watch`).
- `placing`, `hands`, `outcome`: assume the pod on its node, bind it, and handle the result.
- `volumes`, `volumes_kept`, `volumes_wait`: volumes of its claims, before the bind.
- `evicting`, `nominations`: evict victims, and keep their node for the pod.
- `hints`: the events that may help a refused pod.
- `report`, `series`: Events and conditions.

Beside that: `generation` (what a reload replaces), `onlookers` (recording, tracing, candidate), `candidate`,
`vitals` (health and gauges), `again` (replays).
"""
