"""The traps of the file itself: keys, values, versions, profiles, and what kube-scheduler makes of them."""

from bayplan.doctor.finding import Trap

UNKNOWN_KEY = Trap(
    "unknown-key",
    "error",
    "kube-scheduler decodes strictly: with a key that it does not know it does not start.",
    "1.19 and later; Policy files before 1.23 ignored it in silence",
    "Correct the name, or take the key out.",
)
KEY_CASE = Trap(
    "key-case",
    "error",
    "Old Policy files were read without regard to case, KubeSchedulerConfiguration is not: `enableHttps` of a"
    " tutorial is an unknown key, and kube-scheduler does not start.",
    "1.19 and later",
    "Write the key as the API spells it.",
)
BAD_VALUE = Trap(
    "bad-value",
    "error",
    "A value of another type cannot be decoded: kube-scheduler does not start.",
    "all",
    "Write a value of the right type; text in quotes is text, also when it looks like a number.",
)
VALUE_OUT_OF_RANGE = Trap(
    "value-out-of-range",
    "error",
    "A value of the right type may still be one that kube-scheduler does not take, by itself or beside"
    " another one: it does not start.",
    "all",
    "Write a value within the bounds, or leave the key out: the default is one.",
)
API_VERSION = Trap(
    "api-version",
    "error",
    "kube-scheduler knows only the versions of its own time. With another one it ends with"
    ' `no kind "KubeSchedulerConfiguration" is registered`.',
    "v1beta1: 1.19 to 1.22; v1beta2: 1.22 to 1.27; v1beta3: 1.23 to 1.28; v1: from 1.25 on",
    "Use kubescheduler.config.k8s.io/v1 from 1.25 on.",
)
API_VERSION_DEPRECATED = Trap(
    "api-version-deprecated",
    "warning",
    "The version is still read and has been announced to go: an upgrade of the control plane would end with a"
    " kube-scheduler that does not start.",
    "v1beta2: deprecated in 1.25, gone in 1.28; v1beta3: deprecated in 1.26, gone in 1.29",
    "Use kubescheduler.config.k8s.io/v1.",
)
POLICY_API = Trap(
    "policy-api",
    "error",
    "The Policy API, with predicates and priorities, is gone: `--policy-config-file` is no flag any more.",
    "removed in 1.23",
    "Convert it: `bayplan doctor FILE --fix` prints a KubeSchedulerConfiguration that does the same.",
)
POLICY_WITHOUT_SUCCESSOR = Trap(
    "policy-without-successor",
    "warning",
    "A predicate, a priority or a setting of the Policy has no plugin any more that does the same.",
    "1.23 and later",
    "Read what is said about it, and decide: node affinity, topology spread, or a policy of your own.",
)
PLUGIN_GONE = Trap(
    "plugin-gone",
    "error",
    "The plugin was taken out of kube-scheduler, which does not start when it is enabled or configured.",
    "by plugin: 1.22 to 1.32",
    "Use its successor.",
)
UNKNOWN_PLUGIN = Trap(
    "unknown-plugin",
    "warning",
    "kube-scheduler's own binary has no such plugin: it does not start where one is enabled, and passes"
    " over its arguments without a word. A kube-scheduler that was built with more plugins may have it.",
    "all; the plugins are those of 1.36",
    "Correct the name, or make sure that the kube-scheduler that reads the file was built with the plugin.",
)
PLUGIN_TWICE = Trap(
    "plugin-twice",
    "error",
    "In a profile a plugin is enabled once at a point, and has one entry in pluginConfig: kube-scheduler does"
    " not start.",
    "all",
    "Keep one of them; arguments of both go into one entry.",
)
PLUGIN_POINT = Trap(
    "plugin-point",
    "error",
    "A plugin can be enabled at the points that it was made for, and at no other: kube-scheduler does not"
    " start.",
    "all; the points are those of any version from 1.25 on",
    "Enable it at one of its own points, or at multiPoint, which means all of them.",
)
PLUGIN_WITHOUT_NAME = Trap(
    "plugin-without-name",
    "error",
    "A plugin is found by its name. There is none with an empty one, and kube-scheduler does not start.",
    "all",
    "Write the name, or take the entry out.",
)
NO_BIND_PLUGIN = Trap(
    "no-bind-plugin",
    "error",
    "Each profile needs a plugin that binds, also where an extender has a bindVerb: kube-scheduler does not"
    " start.",
    "all",
    "Leave DefaultBinder enabled; an extender with a bindVerb is asked before it.",
)
QUEUE_SORT = Trap(
    "queue-sort",
    "error",
    "All profiles share one queue, so that each needs the same plugin to sort it, and exactly one:"
    " kube-scheduler does not start.",
    "all",
    "Leave queueSort out of every profile, or write the same into each: another plugin enabled and `*`"
    " disabled.",
)
PROFILE_NAME = Trap(
    "profile-name",
    "error",
    "Each profile needs a schedulerName of its own; with two equal ones, or one without a name beside others,"
    " kube-scheduler does not start.",
    "all",
    "Give each profile a name that no other has.",
)
EXTENDERS_IN_A_PROFILE = Trap(
    "extenders-in-a-profile",
    "error",
    "Extenders belong to the whole kube-scheduler: a profile has no such key, and kube-scheduler does not"
    " start.",
    "all",
    "Move `extenders` to the top level; for pods of one scheduler name only, run a second kube-scheduler.",
)
EXTENDERS_ARE_GLOBAL = Trap(
    "extenders-are-global",
    "note",
    "Extenders are asked for the pods of every profile, not of one.",
    "all",
    "Keep it if that is meant; else run a second kube-scheduler, or tell the pods apart with `for:` in"
    " policies.",
)
NO_EXTENDERS = Trap(
    "no-extenders",
    "warning",
    "Nobody is asked: kube-scheduler calls extenders only when its configuration names them.",
    "all",
    "Add `extenders:` with an entry for Bayplan; docs/how-to/connect.md has one.",
)
NOT_FIRST_DOCUMENT = Trap(
    "not-first-document",
    "error",
    "kube-scheduler reads the first YAML document of its file, and nothing after `---`.",
    "all",
    "Put the KubeSchedulerConfiguration first, or into a file of its own.",
)
SAMPLING = Trap(
    "sampling",
    "note",
    "From 100 nodes on, kube-scheduler stops looking when it has enough nodes that pass in-tree: 420 of"
    " 1,000, 500 of 5,000. A filter that few nodes pass may be offered none of them, and the pod stays"
    " Pending beside nodes that fit.",
    "all",
    "Set percentageOfNodesToScore: 100 where filters are selective; it costs kube-scheduler time.",
)
EVERY_POD_WAITS = Trap(
    "every-pod-waits",
    "warning",
    "The default scheduler asks this extender about every pod. While it is down no pod is scheduled, its own"
    " included: the hen and the egg.",
    "all (kubernetes #91489)",
    "Set `managedResources` or `ignorable: true`, or give the profile a schedulerName of its own.",
)
VERSION_UNTESTED = Trap(
    "version-untested",
    "note",
    "What doctor knows was read and run on Kubernetes 1.25 to 1.38; beyond them it is a guess.",
    "before 1.25, after 1.38",
    "Take what is said with care.",
)
SLOW_RETRY = Trap(
    "slow-retry",
    "note",
    "A pod that our filter refused is not tried again when something changes, only after 5 minutes: in 1.25"
    " only events of an in-tree plugin that also refused it count, in 1.29 the fix came with 1.29.10.",
    "1.25; 1.29.0 to 1.29.9",
    "Upgrade, or switch `cluster.nudge` on: Bayplan then touches pods that may fit now.",
)

ALL = tuple(value for value in vars().values() if isinstance(value, Trap))
