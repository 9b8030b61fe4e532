"""What every object of an installation is called by: name, namespace and labels."""

from bayplan.install.tree import ByHelm, Named, Shared, Text, Tree, When

SELECTOR = Shared(
    "selectorLabels",
    {"app.kubernetes.io/name": Named("name"), "app.kubernetes.io/instance": Named("instance")},
)
LABELS = Shared(
    "labels",
    {
        "app.kubernetes.io/name": Named("name"),
        "app.kubernetes.io/instance": Named("instance"),
        "app.kubernetes.io/version": Named("version"),
        "app.kubernetes.io/managed-by": Named("managedBy"),
        "helm.sh/chart": When(ByHelm(), Named("chart")),
    },
)


def suffixed(suffix: str) -> Tree:
    """The name of the installation with something behind it; without a suffix, the name itself."""
    return Text(f"{{}}-{suffix}", Named("fullname")) if suffix else Named("fullname")


def metadata(suffix: str = "", *, namespaced: bool = True, **more: Tree) -> Tree:
    """``metadata`` of an object."""
    found: dict[str, Tree] = {"name": suffixed(suffix)}
    if namespaced:
        found["namespace"] = Named("namespace")
    return {**found, "labels": LABELS, **more}


def cluster_name(suffix: str = "") -> Tree:
    """A name for what has no namespace: two installations of one name do not share it."""
    return Text(f"{{}}-{suffix}", Named("clusterName")) if suffix else Named("clusterName")
