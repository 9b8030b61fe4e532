"""The traps of the pod that kube-scheduler itself runs in."""

from bayplan.doctor.finding import Trap

FLAG_GONE = Trap(
    "flag-gone",
    "error",
    "kube-scheduler does not start with a flag that it does not know: it ends with `unknown flag`.",
    "by flag: 1.22 to 1.28",
    "Take the flag out, and write what it said where it is read now.",
)
CONFIG_NOT_MOUNTED = Trap(
    "config-not-mounted",
    "error",
    "kube-scheduler reads `--config` inside its container. A file of the host is not there unless a volume"
    " brings it: kube-scheduler ends with `no such file or directory`.",
    "all",
    "Add a volume with the file (hostPath or configMap), and a volumeMount for its folder; or make --config"
    " name a path that is mounted.",
)
CONFIG_NOT_THERE = Trap(
    "config-not-there",
    "error",
    "A volume is mounted where `--config` points, and it has no such file: kube-scheduler does not start.",
    "all",
    "Put the file into the volume under that name, or make --config name the file that is in it. A volume"
    " that is mounted over the file itself needs subPath.",
)
CONFIG_NOT_READ = Trap(
    "config-not-read",
    "warning",
    "kube-scheduler reads no configuration that `--config` does not name: without it there are no extenders,"
    " and nobody asks Bayplan.",
    "all",
    "Add --config with the path of the file in the container, and mount the file there.",
)
KUBECONFIG_IGNORED = Trap(
    "kubeconfig-ignored",
    "error",
    "With `--config` kube-scheduler does not heed `--kubeconfig`: it takes the service account of its pod,"
    " which a static pod does not have, and ends with `no configuration has been provided`.",
    "all",
    "Write the path into the configuration:"
    " `clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}`.",
)

ALL = tuple(value for value in vars().values() if isinstance(value, Trap))
