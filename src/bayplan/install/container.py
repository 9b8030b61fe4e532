"""The containers of our pods: what they run, where they listen, how the kubelet asks after them."""

from bayplan.install.configuration import (
    CONFIG_DIRECTORY,
    CONFIG_FILE,
    SCHEDULER_CONFIG_FILE,
    TLS_DIRECTORY,
)
from bayplan.install.names import EXTENDER_PORT, KUBE_SCHEDULER_PORT, OPS_PORT, SCHEDULER_OPS_PORT
from bayplan.install.shapes import CONTROL_PLANE, LEASED, MUTUAL_TLS, SERVICE, SIDECAR, STANDALONE
from bayplan.install.tree import All, Block, Named, Shared, Spread, Text, Tree, Value, When
from bayplan.install.versions import NATIVE_SIDECARS, SCHEDULER_LIVEZ, SLEEP_BEFORE_STOP

PAUSE_SECONDS, HANDOVER_SECONDS = 5, 15
"""How long a pod goes on before it is told to stop: until no Service leads to it any more; and where one pod
alone is ready, until those that replace it can take over."""
_SCHEDULER_CONFIG_DIRECTORY = "/etc/kube-scheduler"
_START_SECONDS, _START_PERIOD = 300, 2


def _probe(path: Tree, **settings: int) -> Tree:
    return {
        "httpGet": {
            "path": path,
            "port": "ops",
            # On the host's network we listen on loopback alone.
            "host": When(CONTROL_PLANE, "127.0.0.1"),
        },
        **settings,
    }


def _pause(seconds: int) -> Tree:
    return When(
        SLEEP_BEFORE_STOP,
        {"sleep": {"seconds": seconds}},
        {"exec": {"command": ["python", "-c", f"import time; time.sleep({seconds})"]}},
    )


BAYPLAN = Shared(
    "container",
    {
        "name": "bayplan",
        "image": Named("image"),
        "imagePullPolicy": Value("image.pullPolicy"),
        "restartPolicy": When(All(SIDECAR, NATIVE_SIDECARS), "Always"),
        "command": ["bayplan"],
        "args": [
            When(STANDALONE, "schedule", "serve"),
            f"--config={CONFIG_DIRECTORY}/{CONFIG_FILE}",
            "--log-format=json",
            Spread("extraArgs"),
        ],
        "env": [
            # The root of the container is read-only: there is nowhere to write compiled files.
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
            Spread("extraEnv"),
        ],
        "ports": [
            When(SERVICE, {"name": "extender", "containerPort": EXTENDER_PORT, "protocol": "TCP"}),
            {
                "name": "ops",
                "containerPort": When(STANDALONE, SCHEDULER_OPS_PORT, OPS_PORT),
                "protocol": "TCP",
            },
        ],
        # kube-scheduler in the same pod starts only once this has passed.
        "startupProbe": _probe(
            When(SIDECAR, "/readyz", "/livez"),
            periodSeconds=_START_PERIOD,
            failureThreshold=_START_SECONDS // _START_PERIOD,
        ),
        "livenessProbe": _probe("/livez", periodSeconds=10, timeoutSeconds=5, failureThreshold=3),
        "readinessProbe": _probe("/readyz", periodSeconds=2, timeoutSeconds=2, failureThreshold=2),
        "lifecycle": When(
            SERVICE, {"preStop": When(LEASED, _pause(HANDOVER_SECONDS), _pause(PAUSE_SECONDS))}
        ),
        "securityContext": Block("securityContext"),
        "resources": Block("resources"),
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_DIRECTORY, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own
            When(MUTUAL_TLS, {"name": "tls", "mountPath": TLS_DIRECTORY, "readOnly": True}),
            Spread("extraVolumeMounts"),
        ],
    },
)


def _scheduler_probe(path: str, **settings: int) -> Tree:
    return {
        "httpGet": {
            "path": When(SCHEDULER_LIVEZ, path, "/healthz"),
            "port": "https",
            "scheme": "HTTPS",
        },
        **settings,
    }


KUBE_SCHEDULER = Shared(
    "kubeScheduler",
    {
        "name": "kube-scheduler",
        "image": Named("schedulerImage"),
        "imagePullPolicy": Value("scheduler.image.pullPolicy"),
        "command": [
            "kube-scheduler",
            f"--config={_SCHEDULER_CONFIG_DIRECTORY}/{SCHEDULER_CONFIG_FILE}",
            f"--secure-port={KUBE_SCHEDULER_PORT}",
            Text("--v={}", Value("scheduler.verbosity")),
        ],
        "ports": [{"name": "https", "containerPort": KUBE_SCHEDULER_PORT, "protocol": "TCP"}],
        "livenessProbe": _scheduler_probe(
            "/livez", initialDelaySeconds=10, periodSeconds=10, timeoutSeconds=5, failureThreshold=6
        ),
        "readinessProbe": _scheduler_probe("/readyz", periodSeconds=5, timeoutSeconds=5, failureThreshold=3),
        "securityContext": Block("securityContext"),
        "resources": Block("scheduler.resources"),
        "volumeMounts": [
            {"name": "scheduler-config", "mountPath": _SCHEDULER_CONFIG_DIRECTORY, "readOnly": True}
        ],
    },
)
