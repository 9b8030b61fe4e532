"""The traps of a cluster, and of the manifests that go into one."""

from bayplan.doctor.finding import Trap

SCHEDULER_NAME_ANNOTATION = Trap(
    "scheduler-name-annotation",
    "error",
    "The annotation scheduler.alpha.kubernetes.io/name means nothing since 1.6: the default scheduler"
    " takes the pod, and no policy of ours sees it.",
    "1.6 and later",
    "Write spec.schedulerName.",
)
HEN_AND_EGG = Trap(
    "hen-and-egg",
    "error",
    "The extender's pod is scheduled by the very kube-scheduler that waits for the extender: when it is down,"
    " it cannot come up again.",
    "all (kubernetes #91489)",
    "Leave schedulerName out, so that the default scheduler places it, and attach Bayplan to another one; or"
    " set `ignorable` or `managedResources`.",
)
RBAC_MISSING = Trap(
    "rbac-missing",
    "error",
    "Without the right Bayplan does not become ready, or its binds fail.",
    "all",
    "Grant it: docs/how-to/connect.md has the rules, for `bayplan schedule` docs/how-to/schedule.md.",
)
RBAC_TOO_WIDE = Trap(
    "rbac-too-wide",
    "warning",
    "Whoever takes over the extender has these rights too: cluster-admin or `*` is the whole cluster.",
    "all",
    "Bind a ClusterRole with the rules of docs/how-to/connect.md, and nothing more.",
)
CLOCK_SKEW = Trap(
    "clock-skew",
    "warning",
    "Leases, certificates and the ages of values are compared by the clock: with another time a"
    " certificate is not valid yet, and logs cannot be laid beside each other.",
    "all",
    "Run NTP on the machines of the control plane, and on those that Bayplan runs on.",
)
EXTENDER_UNREACHABLE = Trap(
    "extender-unreachable",
    "note",
    "From this machine nobody answers at urlPrefix. kube-scheduler may stand elsewhere and get through;"
    " if not, each pod costs it httpTimeout.",
    "all",
    "Try it from where kube-scheduler runs.",
)
CERTIFICATE_REFUSED = Trap(
    "certificate-refused",
    "error",
    "The extender's certificate does not stand up to the CA of the configuration, or to the name in"
    " urlPrefix: every call fails.",
    "all",
    "Make a certificate of that CA with the host of urlPrefix in it, or set tlsConfig.serverName.",
)
NOT_LOOKED_AT = Trap(
    "not-looked-at",
    "note",
    "The cluster does not let the user of the kubeconfig see it, so that nothing is known about it.",
    "all",
    "Run doctor with a kubeconfig that may read it.",
)

ALL = tuple(value for value in vars().values() if isinstance(value, Trap))
