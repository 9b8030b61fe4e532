"""Evaluates policies over a node table and writes down why. No I/O, no wire format.

- `cycle`: a `Question` (pod, nodes, cluster) in, a `Decision` out: runs the hooks of all policies.
- `guard`: calls a hook; its exceptions become failures. `combine`: scores of many hooks to one.
- `decision`: every node's verdict and score. `unschedulable`: its sentence for an event.
- `choose`: filter and score at once, for the scheduler and the simulator. `keep`: only the best nodes.
- `commit`: recheck and allocate before a bind. `unsettled`: pods whose bind has an unknown outcome.

Faster, with the same results:

- `memory`, `again`, `quick`: reuse the outcomes for a similar pod; hooks run on changed nodes only.
- `standing`, `standing_entry`, `promise`: the verdicts on all nodes for one kind of pod.
- `node_hooks`, `hook_results`: what single hooks say about all nodes, beside hooks that must be called.

Preemption: `preempt` (an extender's candidates), `make_room` (kube-scheduler's search for victims), `victims`
(hooks about victims), `trials` and `watched` (filters over trial evictions), `crowd` (order of reprieve).

Gangs and the queue: `membership`, `company`, `gang`, `gang_domains`, `gang_record`, `settle`; `entering`.

Records: `entry` and `journal` (the last decisions), `why` and `ranking` (explanations), `differ` and
`shadowing` (a candidate against the live configuration).
"""
