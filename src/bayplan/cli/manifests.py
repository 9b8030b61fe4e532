"""``bayplan render``: everything that a cluster needs, for a shape and a version of Kubernetes."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.options import config_option

if TYPE_CHECKING:
    from bayplan.install.names import Release

_SHAPES = ("sidecar", "standalone", "control-plane", "service")
_PARTS = ("manifests", "scheduler-config", "kubeadm-patch", "kubeadm-config", "steps", "values")
_PART_OF = {
    "scheduler-config": ("sidecar", "control-plane", "service"),
    "kubeadm-patch": ("control-plane", "service"),
    "kubeadm-config": ("control-plane", "service"),
}
"""Parts that not every shape has: elsewhere they would lead kube-scheduler to files that are not there."""
_FOR = {
    "scheduler_name": ("sidecar", "standalone"),
    "scheduler_image": ("sidecar",),
    "weight": ("sidecar", "control-plane", "service"),
    "managed": ("sidecar", "control-plane", "service"),
    "ignorable": ("sidecar", "control-plane", "service"),
    "cluster_ip": ("service",),
    "tls": ("control-plane", "service"),
    "replicas": ("sidecar", "standalone", "service"),
}
"""Options that not every shape has a use for."""
_WITHOUT_IMAGE = ("scheduler-config", "kubeadm-patch", "kubeadm-config", "steps")
"""Parts that no image is in; the steps say themselves where it has to be."""
_FIRST = {"Namespace": 0, "Secret": 1}
"""What pods mount is there before them, and its namespace before that."""
_EPILOG = """\b
Shapes:
  sidecar         a second kube-scheduler with us in its pod; works where the control plane is not yours
  standalone      bayplan schedule, a scheduler of its own (also called: scheduler)
  control-plane   beside each kube-scheduler of the control plane, on the host's network
  service         behind a Service, for kube-schedulers anywhere

\b
Examples:
  bayplan render sidecar policy.py --image registry.example/bayplan:0.1.0 | kubectl apply --server-side -f -
  bayplan render sidecar --config bayplan.yaml --kubernetes-version 1.31 --namespace bayplan
  bayplan render service policy.py --ignorable --cluster-ip 10.96.0.50 --tls cert-manager
  bayplan render control-plane policy.py --ignorable --out manifests
  bayplan render sidecar policy.py --part values > values.yaml    for the Helm chart
"""


class _Shape(click.Choice[str]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from bayplan.kube.yaml import suggest

        name = "standalone" if value == "scheduler" else value
        if name not in self.choices:
            self.fail(f"{value!r} is no shape{suggest(str(value), self.choices)}", param, ctx)
        return name


@click.command(epilog=_EPILOG, short_help="Print all manifests that a cluster needs, as YAML.")
@click.argument("shape", type=_Shape(_SHAPES), metavar="SHAPE")
@click.argument("policies", metavar="POLICY.py...", nargs=-1)
@config_option
@click.option("--kubernetes-version", metavar="1.X[.Y]", help="1.25 to 1.38.  [that of --values, or 1.36]")
@click.option("--namespace", "-n", default="kube-system", show_default=True, help="Namespace of the objects.")
@click.option("--name", default="bayplan", show_default=True, help="Name of the objects.")
@click.option("--image", metavar="IMAGE[:TAG]", help="The image of Bayplan, which you build.  [bayplan]")
@click.option("--replicas", type=click.IntRange(min=1), help="Number of pods.  [2]")
@click.option("--scheduler-name", metavar="NAME", help="schedulerName that pods use.  [bayplan-scheduler]")
@click.option("--scheduler-image", metavar="IMAGE[:TAG]", help="kube-scheduler of the sidecar.")
@click.option("--weight", type=click.IntRange(1, 2**31 - 1), help="Weight of Bayplan's scores.  [1]")
@click.option(
    "--managed-resource",
    "managed",
    multiple=True,
    metavar="NAME",
    help="kube-scheduler asks only about pods with this extended resource; repeatable.",
)
@click.option(
    "--ignorable", is_flag=True, default=None, help="Pods are scheduled without Bayplan while it is down."
)
@click.option("--cluster-ip", metavar="IP", help="Fixed address of the Service.")
@click.option(
    "--tls",
    type=click.Choice(["certs", "cert-manager", "existing-secret", "none"]),
    help="Where certificates come from.  [existing-secret]",
)
@click.option(
    "--certs",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of `bayplan certs create`, with --tls certs.",
)
@click.option(
    "--values",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="All other settings, as values of the Helm chart.",
)
@click.option(
    "--part",
    type=click.Choice(_PARTS),
    default="manifests",
    show_default=True,
    help="What to print.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Form of the manifests.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write files: one for each object, and those for the hosts.",
)
def command(shape: Any, policies: tuple[str, ...], config: Path | None, **options: Any) -> None:
    """Print everything that a cluster needs to run these policies: workload, configuration, rights, network.

    Nothing is changed anywhere: apply it with kubectl. Verbs and rights are those that the policies need.
    """
    from bayplan.cli.extender_section import check_extender
    from bayplan.cli.failing import explained
    from bayplan.cli.scheduler_section import check_scheduler
    from bayplan.config.flags import Flags
    from bayplan.install.plan import Wishes, plan
    from bayplan.install.versions import parse_version

    if options["tls"] == "certs" and not options["certs"]:
        raise click.UsageError("--tls certs needs --certs DIR: `bayplan certs create --out DIR` makes it")
    if options["certs"] and options["tls"] != "certs":
        raise click.UsageError("--certs DIR is for --tls certs")
    _refuse_what_would_be_passed_over(options)
    for name, shapes in _FOR.items():
        if options[name] and shape not in shapes:
            flag = "--managed-resource" if name == "managed" else f"--{name.replace('_', '-')}"
            click.echo(f"warning: {flag} is passed over: it is for {', '.join(shapes)}", err=True)
    if shape not in _PART_OF.get(options["part"], _SHAPES):
        raise click.UsageError(
            f"--part {options['part']}: nothing of that is done for {shape}, but for"
            f" {' and '.join(_PART_OF[options['part']])}"
        )
    with explained():
        if shape == "standalone":
            check_scheduler(policies, Flags(config=config), meant=True)
        elif policies or config:
            check_extender(policies, Flags(config=config), alone=shape != "service")
        release = plan(
            policies,
            Flags(config=config),
            Wishes(
                shape=shape,
                version=parse_version(version) if (version := options["kubernetes_version"]) else None,
                namespace=options["namespace"],
                name=options["name"],
                values=options["values"],
                over=_values(options),
            ),
        )
        _show(release, options)


def _refuse_what_would_be_passed_over(options: dict[str, Any]) -> None:
    part, as_json = options["part"], options["output"] == "json"
    if options["out"] is not None and part != "manifests":
        raise click.UsageError(f"--out writes everything: leave --part {part} away, or --out")
    if as_json and options["out"] is not None:
        raise click.UsageError("--out writes YAML: leave -o json away, or --out")
    if as_json and part != "manifests":
        raise click.UsageError(f"-o json is for the manifests: leave it away, or --part {part}")


def _values(options: dict[str, Any]) -> dict[str, Any]:
    """The options as values of the chart."""
    found: dict[str, Any] = {
        "replicaCount": options["replicas"],
        "image": _image(options["image"]),
        "scheduler": {"name": options["scheduler_name"], "image": _image(options["scheduler_image"])},
        "extender": {
            "weight": options["weight"],
            "ignorable": options["ignorable"],
            "managedResources": [{"name": name} for name in options["managed"]] or None,
        },
        "service": {"clusterIP": options["cluster_ip"]},
        "tls": {"mode": "existing-secret" if options["tls"] == "certs" else options["tls"]},
    }
    return _given(found)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Without what nobody gave."""
    kept = {key: _given(value) if isinstance(value, dict) else value for key, value in values.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}


def _image(text: str | None) -> dict[str, str | None]:
    if text is None:
        return {}
    # A colon before the last slash is that of a port.
    repository, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        return {"repository": text}
    return {"repository": repository, "tag": tag}


def _show(release: "Release", options: dict[str, Any]) -> None:
    from bayplan.install import control_plane, output
    from bayplan.install.documents import objects, scheduler_configuration
    from bayplan.install.evaluate import to_yaml
    from bayplan.install.names import worked_out
    from bayplan.install.plan import changed_values

    attached = release.value("shape") in ("service", "control-plane")
    if attached and release.value("tls.mode") == "none":
        click.echo("warning: without TLS anybody who reaches the port can call it", err=True)
    for warning in release.warnings:
        click.echo(f"warning: {warning}", err=True)
    part = options["part"]
    if control_plane.image_unnamed(release) and options["image"] is None and part not in _WITHOUT_IMAGE:
        image = worked_out("image", release)
        click.echo(
            f"note: the image is {image}, of no registry: nodes find it only where it was put on them."
            f" Build it, see docs/how-to/image.md, and name it: --image registry.example/{image}",
            err=True,
        )
    found = [*objects(release), *_secrets(release, options)]
    found.sort(key=lambda one: _FIRST.get(one["kind"], len(_FIRST)))
    if options["out"] is not None:
        files = {}
        if attached:
            folder = shlex.quote(str(options["out"]))
            files = control_plane.host_files(release, scheduler_configuration(release), manifests=folder)
        for path in output.write_each(found, options["out"], host_files=files):
            click.echo(f"wrote {path}")
    elif part == "manifests":
        click.echo(
            output.as_list(found) if options["output"] == "json" else output.as_stream(found), nl=False
        )
    elif part == "steps":
        click.echo(control_plane.steps(release), nl=False)
    else:
        parts: dict[str, Any] = {
            "scheduler-config": scheduler_configuration(release),
            "kubeadm-patch": control_plane.kubeadm_patch(),
            "kubeadm-config": control_plane.kubeadm_configuration(release.minor),
            # Helm has made or found the namespace before it reads the chart: it would not make it twice.
            "values": {
                key: value
                for key, value in changed_values(release.values).items()
                if key != "createNamespace"
            },
        }
        click.echo(to_yaml(parts[part]), nl=False)


def _secrets(release: "Release", options: dict[str, Any]) -> list[dict[str, Any]]:
    if options["tls"] != "certs" or release.value("shape") not in _FOR["tls"]:
        return []
    from bayplan.cli.certs import certificate_tools
    from bayplan.install.names import worked_out
    from bayplan.install.secrets import tls_secret

    tools = certificate_tools()
    return [
        tls_secret(worked_out(name, release), release.namespace, tools.secret_data(options["certs"], side))
        for name, side in (("serverSecret", "server"), ("clientSecret", "client"))
    ]
