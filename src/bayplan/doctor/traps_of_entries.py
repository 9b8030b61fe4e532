"""The traps of one entry in ``extenders``, and of several beside each other."""

from bayplan.doctor.finding import Trap

FILTER_WITHOUT_PREEMPT = Trap(
    "filter-without-preempt",
    "error",
    "kube-scheduler chooses pods to evict without asking the filters of extenders: victims die for a node"
    " that the filter then refuses, again and again. Seen on 1.36: 122 evictions in 20 seconds, for"
    " nothing.",
    "1.11 and later",
    "Add `preemptVerb: preempt`. Bayplan answers it and drops nodes that its filters would still refuse.",
)
FULL_NODES = Trap(
    "full-nodes",
    "error",
    "With `nodeCacheCapable: false`, which is the default, each request carries whole nodes (64 MB for"
    " 5,000), and from 1.33 on kube-scheduler's own scores see every node without its pods: all look"
    " empty. Seen on 1.36: 7 of 12 pods on the idle node, 12 of 12 with names.",
    "scores from 1.33 on (kubernetes #141781); the size in all versions",
    "Set `nodeCacheCapable: true`, and give Bayplan the cluster: --kubeconfig or --in-cluster.",
)
IGNORABLE_BINDER = Trap(
    "ignorable-binder",
    "error",
    "When the bind call of an ignorable extender fails, kube-scheduler's default binder binds behind its"
    " back: what the extender reserved or refused counts for nothing.",
    "1.30 and later; before that `ignorable` does not cover bind, and the pod fails",
    "Take `ignorable` away; `managedResources` keeps the other pods going while it is down.",
)
TWO_BINDERS = Trap(
    "two-binders",
    "error",
    "At most one extender may have a bindVerb: kube-scheduler does not start.",
    "all",
    "Keep one. Bayplan runs many policies behind one bind.",
)
WEIGHT = Trap(
    "weight",
    "error",
    "An extender with a prioritizeVerb needs a weight above 0, which has no default: kube-scheduler does not"
    " start.",
    "all",
    "Set `weight: 1`; a node gains score x weight x 10.",
)
NO_VERB = Trap(
    "no-verb",
    "warning",
    "An extender without a verb is never asked.",
    "all",
    "Name the verbs: filterVerb, preemptVerb, prioritizeVerb, bindVerb.",
)
PREEMPT_WITHOUT_FILTER = Trap(
    "preempt-without-filter",
    "note",
    "An extender that does not filter refuses no node: it is asked before an eviction and has nothing to say,"
    " unless policies protect pods.",
    "1.11 and later",
    "Keep it for `protect` and `victims` hooks; else take preemptVerb away.",
)
BAD_URL = Trap(
    "bad-url",
    "error",
    "The address of the extender is urlPrefix, its scheme included: without one no call gets through.",
    "all",
    "Write http://HOST:PORT or https://HOST:PORT.",
)
PASSWORD_IN_URL = Trap(
    "password-in-url",
    "error",
    "kube-scheduler calls an extender by its urlPrefix: user and password end up in its logs and in the"
    " events of pods, for everybody to read.",
    "all",
    "Take it out, change the password, and tell callers by a client certificate: tlsConfig.certFile.",
)
VERB = Trap(
    "verb",
    "error",
    "The URL of a call is urlPrefix, a slash, and the verb. Bayplan answers under filter, prioritize, preempt"
    " and bind; anything else is an unknown verb.",
    "all",
    "Name the verbs filter, prioritize, preempt and bind.",
)
VERB_SLASH = Trap(
    "verb-slash",
    "error",
    "kube-scheduler puts a slash between urlPrefix and verb: one more makes a path that nobody serves.",
    "all",
    "Write the verb without slashes; the path belongs into urlPrefix.",
)
TIMEOUT_UNIT = Trap(
    "timeout-unit",
    "error",
    "httpTimeout is text with a unit. A number cannot be decoded, and kube-scheduler does not start; in old"
    " Policy files it counted nanoseconds, so that 5 or 5000 was no time at all.",
    "numbers: Policy files before 1.23; refused from KubeSchedulerConfiguration on",
    "Write `httpTimeout: 5s`.",
)
TIMEOUT_SHORT = Trap(
    "timeout-short",
    "warning",
    "kube-scheduler hangs up before Bayplan gives an answer of its own at its deadline"
    " (extender.limits.requestTimeout, 4.5 s): the reason is lost, and a bind may have worked all the same."
    " Without httpTimeout it is 5 s.",
    "all",
    "Make httpTimeout half a second longer than requestTimeout, or requestTimeout shorter.",
)
TIMEOUT_LONG = Trap(
    "timeout-long",
    "warning",
    "kube-scheduler has one scheduling thread and no circuit breaker: an extender that does not answer costs"
    " the whole httpTimeout for each pod, `ignorable` or not.",
    "all",
    "Write `httpTimeout: 5s`, which is also the default.",
)
MANAGED_RESOURCE_NAME = Trap(
    "managed-resource-name",
    "error",
    "managedResources takes extended resources, which have a domain of their own such as example.com/gpu:"
    " kube-scheduler does not start with another name.",
    "1.10 and later",
    "Write the resource as pods ask for it: DOMAIN/NAME.",
)
MANAGED_RESOURCE_TWICE = Trap(
    "managed-resource-twice",
    "error",
    "A resource may be managed by one extender: kube-scheduler does not start.",
    "1.10 and later",
    "Name it in one entry.",
)
MANAGED_RESOURCE_IGNORED = Trap(
    "managed-resource-ignored",
    "warning",
    "`ignoredByScheduler: true` overwrites ignoredResources of NodeResourcesFit in every profile, and nobody"
    " but this extender counts the resource. Up to 1.37 kube-scheduler never calls the preempt verb for it:"
    " no pod is evicted to make room.",
    "1.10 and later; preemption up to 1.37",
    "Let kube-scheduler count it too, unless nodes do not advertise it.",
)
MANAGED_RESOURCE_UNCHECKED = Trap(
    "managed-resource-unchecked",
    "error",
    "kube-scheduler does not count a resource that is ignoredByScheduler, and an extender without filterVerb"
    " does not either: any number of pods fits.",
    "1.10 and later",
    "Add `filterVerb: filter`, or take ignoredByScheduler away.",
)
KEEP_NOT_LAST = Trap(
    "keep-not-last",
    "error",
    "An answer cut down to the best nodes (extender.answer.keep) leaves out nodes that an extender after"
    " us may want: it refuses the rest, and the pod stays Pending beside nodes that fit. Ignorable"
    " extenders come last, whatever their place in the file.",
    "all",
    "Make Bayplan the last extender that filters, or set `keep: all`.",
)
REASONS_NOT_LAST = Trap(
    "reasons-not-last",
    "warning",
    "Reasons are left out while a node passes (extender.answer.failedNodes), and an extender after us may"
    " refuse that node: the pod's event lacks our reasons then, and nodes that eviction would help are not"
    " tried.",
    "all",
    "Make Bayplan the last extender that filters, or set `failedNodes: always`.",
)

ALL = tuple(value for value in vars().values() if isinstance(value, Trap))
