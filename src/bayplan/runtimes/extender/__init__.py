"""The extender door: the HTTP service that kube-scheduler asks.

Start: `run` (``bayplan serve``) reads `options`, builds a `serve.Server` and runs it until a signal.

A request walks through:

- `verb_server`, `connection`, `heads`, `exchange`: the socket, HTTP/1.1, a `Request`.
- `app`: routes, limits, errors; every answer has status 200.
- `at_once`: answers from verdicts that are known (`alike`, `kinds`, `known`), without asking policies.
- `ahead`, `followup`: prepares the prioritize that follows a filter.
- `verbs`: has a request read (`question`, `preemption`, `lengths`), asks the engine in a policy thread, and
  encodes the answer.
- `answer`, `assemble`, `host_lines`: a decision as the JSON of extender v1.
- `binding`: the bind verb, through the ledger.
- `later`, `known_record`: journal and metrics, once the answer is sent.

Beside the requests: `generation` (what a reload replaces), `rejudge` (requests for a candidate), `vitals`
(health and gauges), `freed_memory` (kept for the next request), `gang_labels` (a warning), `leaving` (an
orderly stop).

For other commands: `check`, `ask`, `ask_why`, `ask_cluster`, `ask_files`, and `again` (verbs for a replay).
"""
