"""What is done by hand on the hosts of a control plane: files, the patch for kubeadm, and the steps.

We print it and change nothing: a wrong edit there stops a cluster.
"""

from typing import Any
from urllib.parse import urlsplit

from bayplan.install.evaluate import holds, to_yaml
from bayplan.install.extender_entry import CLIENT_FILES, HOST_CONFIG
from bayplan.install.names import CHART, Release, scheduler_names, worked_out
from bayplan.install.shapes import LEASED
from bayplan.install.values import Values
from bayplan.install.versions import KUBEADM_V1BETA4

PATCH_FILE = "kube-scheduler+json.yaml"
"""The name tells kubeadm what to patch, and in which language."""
_VOLUME = "bayplan"


def kubeadm_patch() -> list[dict[str, Any]]:
    """The JSON patch for the static pod of kube-scheduler: ``kubeadm init|join|upgrade --patches DIR``."""
    return [
        {"op": "add", "path": "/spec/containers/0/command/-", "value": f"--config={HOST_CONFIG}"},
        {
            "op": "add",
            "path": "/spec/containers/0/volumeMounts/-",
            "value": {"name": _VOLUME, "mountPath": CLIENT_FILES, "readOnly": True},
        },
        {
            "op": "add",
            "path": "/spec/volumes/-",
            "value": {"name": _VOLUME, "hostPath": {"path": CLIENT_FILES, "type": "Directory"}},
        },
    ]


def kubeadm_configuration(minor: int) -> dict[str, Any]:
    """The same as a part of kubeadm's ClusterConfiguration, in the form that this version reads."""
    version, arguments = "v1beta3", {"config": HOST_CONFIG}
    extra: Any = arguments
    if minor >= KUBEADM_V1BETA4:
        version, extra = "v1beta4", [{"name": name, "value": value} for name, value in arguments.items()]
    volume = {"name": _VOLUME, "hostPath": CLIENT_FILES, "mountPath": CLIENT_FILES, "readOnly": True}
    return {
        "apiVersion": f"kubeadm.k8s.io/{version}",
        "kind": "ClusterConfiguration",
        "scheduler": {"extraArgs": extra, "extraVolumes": [{**volume, "pathType": "Directory"}]},
    }


def steps(release: Release, *, manifests: str = "FILE") -> str:
    """What is left to do, as a text for people; ``manifests`` is where the objects are."""
    applied = f"Apply the objects:  kubectl apply --server-side -f {manifests}"
    shape = release.value("shape")
    if shape not in ("service", "control-plane"):
        name = " or ".join(scheduler_names(release))
        return _numbered(
            [
                _image(release),
                applied,
                f"Wait until it is ready:  kubectl -n {release.namespace} {_waiting(release)}",
                f"Pods with spec.schedulerName: {name} are placed by it. Nothing else is to be done.",
            ]
        )
    client, mutual = worked_out("clientSecret", release), release.value("tls.mode") != "none"
    # Secrets want the namespace, which may be among the objects.
    certificates = _certificates(release)
    made = release.value("createNamespace")
    lines = [_image(release), *_address(release)]
    lines += [applied, *certificates] if made else [*certificates, applied]
    lines += [
        f"Wait until it is ready:  kubectl -n {release.namespace} {_waiting(release)}",
        f"On each host of the control plane make {CLIENT_FILES} with"
        + (f" ca.crt, tls.crt and tls.key of the Secret {client}, and" if mutual else "")
        + " kube-scheduler.yaml (--part scheduler-config). Files are readable by root alone.",
    ]
    lines += [
        "Tell kube-scheduler of the file, one host after the other: with kubeadm, put the patch"
        f" (--part kubeadm-patch) into a folder as {PATCH_FILE} and run"
        " `kubeadm upgrade node --patches FOLDER` (`kubeadm upgrade apply` on the first); elsewhere add"
        f" --config={HOST_CONFIG} to its arguments.",
        "If kube-scheduler does not come up, take the argument away again: it then schedules as before.",
    ]
    return _numbered(lines)


def image_unnamed(release: Release) -> bool:
    """Whether the image is still the one that nobody has published."""
    return bool(release.value("image.repository") == Values().image.repository)


def _numbered(lines: list[str]) -> str:
    return "".join(f"{number}. {line}\n" for number, line in enumerate(lines, 1))


def _image(release: Release) -> str:
    image = worked_out("image", release)
    there = f"Have the image {image} where nodes get it from: build and push it, see docs/how-to/image.md."
    if image_unnamed(release):
        there += f" It is of no registry: give --image with yours, such as registry.example/{image}."
    return there


def _address(release: Release) -> list[str]:
    """Before the certificates: they are made for the address."""
    if release.value("shape") != "service" or release.value("service.clusterIP"):
        return []
    return [
        "kube-scheduler is on the host's network and may not know names of Services: where it does not,"
        " render again with --cluster-ip ADDRESS, a free one for Services, and follow those steps."
    ]


def _waiting(release: Release) -> str:
    name = worked_out("fullname", release)
    if holds(LEASED, release):
        # `rollout status` waits for every pod, and those without the Lease are never ready.
        return f"wait --for=jsonpath='{{.status.readyReplicas}}'=1 --timeout=5m deployment/{name}"
    return (
        f"rollout status {'daemonset' if release.value('shape') == 'control-plane' else 'deployment'}/{name}"
    )


def _certificates(release: Release) -> list[str]:
    server, client = (worked_out(name, release) for name in ("serverSecret", "clientSecret"))
    mode = release.value("tls.mode")
    if mode == "none":
        return ["There is no TLS: anybody who reaches the port can call it. Do not leave it so."]
    if mode == "cert-manager":
        return [f"cert-manager writes the Secrets {server} and {client}; the second is for kube-scheduler."]
    called, name = urlsplit(worked_out("url", release)).hostname or "", worked_out("fullname", release)
    kind = "--dns" if called.endswith(".svc") else "--ip"
    made = f"Make certificates:  bayplan certs create --out certs {kind} {called}"
    if (server, client) != (f"{name}-tls", f"{name}-client-tls"):
        return [
            made,
            f"Make the Secrets {server} and {client} of them, each with tls.crt, tls.key and ca.crt: the"
            " first of server.crt and server.key, the second of client.crt and client.key.",
        ]
    options = f"{'' if name == CHART else f' --name {name}'} --namespace {release.namespace}"
    return [
        made,
        f"Make the Secrets {server} and {client} of them: "
        f" bayplan certs show certs{options} -o yaml | kubectl apply --server-side -f -",
    ]


def host_files(release: Release, scheduler_config: dict[str, Any], *, manifests: str) -> dict[str, str]:
    """The files for the hosts, by name; the objects are in the folder ``manifests``."""
    return {
        "kube-scheduler.yaml": to_yaml(scheduler_config),
        PATCH_FILE: to_yaml(kubeadm_patch()),
        "kubeadm-configuration.yaml": to_yaml(kubeadm_configuration(release.minor)),
        "STEPS.txt": steps(release, manifests=manifests),
    }
