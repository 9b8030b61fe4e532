"""The doors: ways to put policies to work. They do not import each other.

`extender` answers kube-scheduler, `scheduler` places pods itself, `simulator` asks policies at a desk.

Shared by the doors:

- `workers` (with `one_core`, `noted`): policy threads with deadlines for hooks.
- `forked`: keeps processes that hooks fork apart from the server.
- `generation`, `generations`, `reload`: the policies in force, and how a reload replaces them.
- `shadow`, `understudy`, `rejudge`, `candidates`: a candidate configuration beside the live one.
- `listener`, `handshakes`, `connection`, `crowd`, `ops`, `plain`: sockets, TLS, and the ops port.
- `bound`: calls ``bound`` hooks. `verifying`: compares the view with a fresh list.
- `sections`, `limits`, `needs`, `facts`, `fast_loop`, `watched_task`: options, limits, background tasks.
"""
