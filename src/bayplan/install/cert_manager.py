"""The objects for cert-manager: a CA of our own, a certificate for the server and one for kube-scheduler.

A CA of our own, since the names that it vouches for are let in: with the cluster's CA that would be everybody
who has a certificate.
"""

from bayplan.install.labels import metadata, suffixed
from bayplan.install.shapes import CONTROL_PLANE
from bayplan.install.tree import Given, Named, Text, Tree, Value, When

_API = "cert-manager.io/v1"
_KEY: Tree = {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"}
_CA_DURATION, _CA_RENEW_BEFORE = "87600h", "8760h"

SELF_SIGNED: Tree = {
    "apiVersion": _API,
    "kind": "Issuer",
    "metadata": metadata("selfsigned"),
    "spec": {"selfSigned": {}},
}

AUTHORITY: Tree = {
    "apiVersion": _API,
    "kind": "Certificate",
    "metadata": metadata("ca"),
    "spec": {
        "isCA": True,
        "commonName": Text("{}-ca", Named("fullname")),
        "secretName": suffixed("ca"),
        "duration": _CA_DURATION,
        "renewBefore": _CA_RENEW_BEFORE,
        "privateKey": {"algorithm": "ECDSA", "size": 256},
        "issuerRef": {"name": suffixed("selfsigned"), "kind": "Issuer"},
    },
}

ISSUER: Tree = {
    "apiVersion": _API,
    "kind": "Issuer",
    "metadata": metadata("ca"),
    "spec": {"ca": {"secretName": suffixed("ca")}},
}


def _certificate(suffix: str, *, secret: str, usage: str, names: dict[str, Tree]) -> Tree:
    return {
        "apiVersion": _API,
        "kind": "Certificate",
        "metadata": metadata(suffix),
        "spec": {
            "secretName": Named(secret),
            "duration": Value("tls.certManager.duration"),
            "renewBefore": Value("tls.certManager.renewBefore"),
            "privateKey": _KEY,
            "usages": ["digital signature", usage],
            **names,
            "issuerRef": {"name": suffixed("ca"), "kind": "Issuer"},
        },
    }


SERVER: Tree = _certificate(
    "server",
    secret="serverSecret",  # noqa: S106 - a name of a name
    usage="server auth",
    names={
        "commonName": Named("fullname"),
        "dnsNames": [
            Text("{}.{}.svc", Named("fullname"), Named("namespace")),
            Text("{}.{}", Named("fullname"), Named("namespace")),
            Named("fullname"),
            "localhost",
        ],
        "ipAddresses": When(
            CONTROL_PLANE,
            ["127.0.0.1"],
            When(Given("service.clusterIP"), [Value("service.clusterIP")]),
        ),
    },
)

CLIENT: Tree = _certificate(
    "client",
    secret="clientSecret",  # noqa: S106 - a name of a name
    usage="client auth",
    names={"commonName": "kube-scheduler"},
)
