"""What an installation can say about itself: the values of the chart, with defaults and what they mean.

``values.yaml``, ``values.schema.json`` and the table in the chart's README are made from this file.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

Shape = Literal["sidecar", "standalone", "control-plane", "service"]
TlsMode = Literal["existing-secret", "cert-manager", "none"]

Mapping_ = dict[str, Any]


class _Values(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Values that are strict: an unknown name is an error, here and in Helm."""


class Image(_Values, frozen=True):
    """Where the image of Bayplan is."""

    repository: Annotated[str, Meta(description="name of the image", min_length=1)] = "bayplan"
    pull_policy: Annotated[Literal["Always", "IfNotPresent", "Never"], Meta(description="as in a pod")] = (
        "IfNotPresent"
    )
    tag: Annotated[str, Meta(description="the version of the chart where it is empty")] = ""


class SchedulerImage(_Values, frozen=True):
    """Where the image of kube-scheduler is."""

    repository: Annotated[str, Meta(description="name of the image")] = "registry.k8s.io/kube-scheduler"
    pull_policy: Annotated[Literal["Always", "IfNotPresent", "Never"], Meta(description="as in a pod")] = (
        "IfNotPresent"
    )
    tag: Annotated[str, Meta(description="that of the cluster's version where it is empty")] = ""


class Scheduler(_Values, frozen=True):
    """The scheduler that pods ask for: of the shapes sidecar and standalone."""

    name: Annotated[str, Meta(description="spec.schedulerName of the pods", min_length=1)] = (
        "bayplan-scheduler"
    )
    image: Annotated[SchedulerImage, Meta(description="kube-scheduler, of the sidecar")] = SchedulerImage()
    ignored_resources: Annotated[
        list[str],
        Meta(description="what nodes do not advertise and only our policies count, of the sidecar"),
    ] = field(default_factory=list)
    percentage_of_nodes_to_score: Annotated[
        int, Meta(description="of kube-scheduler; 0 for its own choice, 100 to be offered every node", ge=0)
    ] = 0
    verbosity: Annotated[int, Meta(description="how much kube-scheduler logs", ge=0, le=10)] = 2
    resources: Annotated[Mapping_, Meta(description="of kube-scheduler's container")] = field(
        default_factory=lambda: {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        }
    )


class Verbs(_Values, frozen=True):
    """What kube-scheduler asks; `bayplan render --part values` knows it from the policies."""

    filter: Annotated[bool, Meta(description="policies with filter or prefer; preempt belongs to it")] = True
    prioritize: Annotated[bool, Meta(description="policies with score")] = True
    preempt: Annotated[bool, Meta(description="policies with filter, protect or victims")] = True
    bind: Annotated[bool, Meta(description="policies with allocate, or filter(recheck=True)")] = False


class Extender(_Values, frozen=True):
    """Our entry in the configuration of kube-scheduler."""

    weight: Annotated[int, Meta(description="a node gains score x weight x 10", ge=1)] = 1
    http_timeout: Annotated[str, Meta(description="more than extender.limits.requestTimeout")] = "5s"
    ignorable: Annotated[bool, Meta(description="pods are scheduled without us when we are away")] = False
    managed_resources: Annotated[
        list[Mapping_], Meta(description="ask us only about pods with these, such as {name: example.com/gpu}")
    ] = field(default_factory=list)


class ServiceAccount(_Values, frozen=True):
    """Who we are to the API server."""

    create: Annotated[bool, Meta(description="make one")] = True
    annotations: Annotated[dict[str, str], Meta(description="of the account")] = field(default_factory=dict)
    name: Annotated[str, Meta(description="fullname where it is empty")] = ""


class Rbac(_Values, frozen=True):
    """Rights."""

    create: Annotated[bool, Meta(description="roles and bindings of exactly what is needed")] = True


class Service(_Values, frozen=True):
    """The Service of the shape of that name."""

    type: Annotated[Literal["ClusterIP", "NodePort", "LoadBalancer"], Meta(description="as in a Service")] = (
        "ClusterIP"
    )
    port: Annotated[int, Meta(description="where kube-scheduler calls", ge=1, le=65535)] = 8888
    cluster_ip: Annotated[
        str, Meta(description="a fixed address: kube-scheduler on the host's network knows no names")
    ] = field(default="", name="clusterIP")
    annotations: Annotated[dict[str, str], Meta(description="of the Service")] = field(default_factory=dict)


class CertManager(_Values, frozen=True):
    """Certificates by cert-manager."""

    duration: Annotated[str, Meta(description="how long certificates last")] = "2160h"
    renew_before: Annotated[str, Meta(description="how early they are renewed")] = "720h"


class Tls(_Values, frozen=True):
    """Mutual TLS, of the shapes service and control-plane."""

    mode: Annotated[TlsMode, Meta(description="where certificates come from; none is for trying out")] = (
        "existing-secret"
    )
    secret_name: Annotated[
        str, Meta(description="Secret with tls.crt, tls.key, ca.crt; else FULLNAME-tls")
    ] = ""
    client_secret_name: Annotated[
        str, Meta(description="Secret for kube-scheduler; else FULLNAME-client-tls")
    ] = ""
    allowed_names: Annotated[list[str], Meta(description="names in callers' certificates")] = field(
        default_factory=lambda: ["kube-scheduler"]
    )
    cert_manager: Annotated[CertManager, Meta(description="settings of that mode")] = CertManager()


class Switch(_Values, frozen=True):
    """Something that can be left out."""

    enabled: Annotated[bool, Meta(description="make it")] = True


class NetworkPolicy(_Values, frozen=True):
    """Who may open connections to our pods."""

    enabled: Annotated[bool, Meta(description="make it")] = True
    ops_from: Annotated[
        list[Mapping_], Meta(description="who reads metrics, as in a rule; empty for all")
    ] = field(default_factory=list)


class ServiceMonitor(_Values, frozen=True):
    """For the Prometheus operator."""

    enabled: Annotated[bool, Meta(description="make it")] = False
    interval: Annotated[str, Meta(description="how often metrics are read")] = "30s"
    labels: Annotated[dict[str, str], Meta(description="what your Prometheus selects by")] = field(
        default_factory=dict
    )


class PrometheusRule(_Values, frozen=True):
    """Alerts, for the Prometheus operator."""

    enabled: Annotated[bool, Meta(description="make it")] = False
    labels: Annotated[dict[str, str], Meta(description="what your Prometheus selects by")] = field(
        default_factory=dict
    )


class Dashboard(_Values, frozen=True):
    """The dashboard as a ConfigMap, for Grafana's sidecar."""

    enabled: Annotated[bool, Meta(description="make it")] = False
    labels: Annotated[dict[str, str], Meta(description="what your Grafana selects by")] = field(
        default_factory=lambda: {"grafana_dashboard": "1"}
    )


class Values(_Values, frozen=True):
    """Everything."""

    shape: Annotated[
        Shape, Meta(description="how it runs: sidecar, standalone, control-plane or service")
    ] = "sidecar"
    kubernetes_version: Annotated[
        str,
        Meta(
            description="1.25 to 1.38; the cluster's own where it is empty",
            pattern=r"^(v?1\.[0-9]+(\.[0-9]+)?([-+].*)?)?$",
            extra={"want": "a version, such as 1.36"},
        ),
    ] = ""
    replica_count: Annotated[int, Meta(description="how many pods; a Lease lets one of them act", ge=1)] = 2
    image: Annotated[Image, Meta(description="the image of Bayplan")] = Image()
    image_pull_secrets: Annotated[list[Mapping_], Meta(description="as in a pod")] = field(
        default_factory=list
    )
    name_override: Annotated[str, Meta(description="in place of the chart's name")] = ""
    fullname_override: Annotated[str, Meta(description="what objects are called")] = ""
    create_namespace: Annotated[
        bool,
        Meta(description="print the Namespace; not for helm install, which has --create-namespace for it"),
    ] = False
    config: Annotated[
        Mapping_,
        Meta(description="your BayplanConfiguration: policies and sources; addresses are ours to set"),
    ] = field(
        default_factory=lambda: {
            "apiVersion": "bayplan.dev/v1",
            "kind": "BayplanConfiguration",
            "policies": [{"use": "MostAvailableCPU"}],
        }
    )
    files: Annotated[
        dict[str, str], Meta(description="files beside it: --set-file files.policy\\.py=policy.py")
    ] = field(default_factory=dict)
    verbs: Annotated[Verbs, Meta(description="what kube-scheduler asks us")] = Verbs()
    extender: Annotated[Extender, Meta(description="our entry for kube-scheduler")] = Extender()
    scheduler: Annotated[Scheduler, Meta(description="the scheduler of sidecar and standalone")] = Scheduler()
    tls: Annotated[Tls, Meta(description="certificates of service and control-plane")] = Tls()
    service_account: Annotated[ServiceAccount, Meta(description="who we are")] = ServiceAccount()
    rbac: Annotated[Rbac, Meta(description="what we may")] = Rbac()
    service: Annotated[Service, Meta(description="how the shape service is reached")] = Service()
    pod_annotations: Annotated[dict[str, str], Meta(description="of pods")] = field(default_factory=dict)
    pod_labels: Annotated[dict[str, str], Meta(description="of pods")] = field(default_factory=dict)
    pod_security_context: Annotated[Mapping_, Meta(description="of pods")] = field(
        default_factory=lambda: {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    )
    security_context: Annotated[Mapping_, Meta(description="of containers")] = field(
        default_factory=lambda: {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    )
    resources: Annotated[Mapping_, Meta(description="of our container")] = field(
        default_factory=lambda: {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
    )
    node_selector: Annotated[dict[str, str], Meta(description="as in a pod")] = field(default_factory=dict)
    tolerations: Annotated[list[Mapping_], Meta(description="as in a pod")] = field(default_factory=list)
    affinity: Annotated[Mapping_, Meta(description="as in a pod")] = field(default_factory=dict)
    priority_class_name: Annotated[
        str, Meta(description="system-cluster-critical in kube-system, else one of our own, where empty")
    ] = ""
    termination_grace_period_seconds: Annotated[
        int, Meta(description="more than limits.drainTimeout and the pause before it", ge=1)
    ] = 45
    extra_args: Annotated[list[str], Meta(description="of our container")] = field(default_factory=list)
    extra_env: Annotated[list[Mapping_], Meta(description="of our container")] = field(default_factory=list)
    extra_volumes: Annotated[list[Mapping_], Meta(description="of pods")] = field(default_factory=list)
    extra_volume_mounts: Annotated[list[Mapping_], Meta(description="of our container")] = field(
        default_factory=list
    )
    pod_disruption_budget: Annotated[Switch, Meta(description="one pod at a time is drained")] = Switch()
    network_policy: Annotated[NetworkPolicy, Meta(description="who may call")] = NetworkPolicy()
    service_monitor: Annotated[ServiceMonitor, Meta(description="metrics")] = ServiceMonitor()
    prometheus_rule: Annotated[PrometheusRule, Meta(description="alerts")] = PrometheusRule()
    dashboard: Annotated[Dashboard, Meta(description="Grafana")] = Dashboard()
