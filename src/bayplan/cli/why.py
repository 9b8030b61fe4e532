"""``bayplan why``: why a pod is on its node, or is Pending."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.options import cluster_options, config_option, output_option

if TYPE_CHECKING:
    from bayplan.runtimes.extender.ask_why import Reply

_SERVER = "http://127.0.0.1:8890"
_SELECTOR = "app.kubernetes.io/name=bayplan"
_PORT = 8890
_ASKING = ("server", "from_cluster", "selector", "port", "token_file", "journal")
_EVALUATING = ("config", "snapshot", "profile")
_PODS = ("pod", "pods", "po")
# As kubectl calls them: whoever writes one of these does not mean a namespace.
_OTHER_KINDS = (
    *("deploy", "deployment", "deployments", "sts", "statefulset", "statefulsets", "rs", "replicaset"),
    *("replicasets", "ds", "daemonset", "daemonsets", "job", "jobs", "cj", "cronjob", "cronjobs", "node"),
)
_EPILOG = """\b
Examples:
  bayplan why pod/web-1                    ask the server on this machine
  bayplan why shop/web-1                   the same in namespace shop; or -n shop
  bayplan why web-1 -n shop --server http://10.0.0.1:8890 \\
                            --server http://10.0.0.2:8890
  bayplan why web-1 --from-cluster         ask all Bayplan pods of the cluster
  bayplan why web-1 --journal journal.jsonl  read the journal of a server that has ended
  bayplan why -f pod.yaml --config bayplan.yaml --snapshot cluster.json
  bayplan why -f web.yaml policy.py --kubeconfig ~/.kube/config
  bayplan why -f web.yaml policy.py --snapshot cluster.json --profile default

--from-cluster goes through the API server's proxy. It needs the right to get `pods/proxy`, and a page that
listens beyond loopback: `page: {listen: 0.0.0.0:8890, tokenFile: FILE}`.
"""


@click.command(epilog=_EPILOG, short_help="Explain why a pod is on its node, or is Pending.")
@click.argument("words", metavar="[pod/NAME | NAMESPACE/NAME | POLICY.py...]", nargs=-1)
@click.option("--namespace", "-n", metavar="NAME", help="Namespace of the pod.  [default]")
@click.option("--server", multiple=True, metavar="URL", help=f"Page of a server; repeatable.  [{_SERVER}]")
@click.option(
    "--token-file", type=click.Path(path_type=Path), metavar="FILE", help="File with the token of the page."
)
@click.option(
    "--from-cluster", is_flag=True, default=None, help="Ask all Bayplan pods that run in the cluster."
)
@click.option(
    "--journal",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read a file that `serve --journal-file` wrote, instead of asking a server; repeatable.",
)
@click.option("--selector", metavar="LABELS", help=f"Labels of the Bayplan pods.  [{_SELECTOR}]")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="PORT", help=f"The port of their page.  [{_PORT}]"
)
@click.option(
    "--weight",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="The extender's `weight` in kube-scheduler's configuration.",
)
@click.option(
    "--filename", "-f", "manifest", metavar="FILE", help="Try this manifest instead; - is standard input."
)
@click.option(
    "--profile",
    metavar="default|FILE",
    help="With -f: also run kube-scheduler's own plugins, of its default profile or of this file.",
)
@config_option
@cluster_options
@output_option
def command(words: tuple[str, ...], manifest: str | None, output: str, **options: Any) -> None:
    """Explain why a pod is on its node, or is Pending: which policy refused or preferred which nodes.

    By default it asks a running server; of several servers, the newest answer counts. With --journal it reads
    files that a server wrote, also after the server has ended. With -f it tries a manifest on the nodes of a
    cluster or of a snapshot, and creates nothing: all nodes are offered to the policies, and with --profile
    first to kube-scheduler's own plugins. If the configuration has a `scheduler` section, it decides as
    `bayplan schedule` would, by the profile for the pod's schedulerName.

    Exits 0 with an explanation, 1 without one, and 1 if a manifest's pod would find no node.
    """
    from bayplan.cli.failing import explained
    from bayplan.cli.why_render import show_evaluated, show_reply

    _check_together(options, manifest)
    _check_words(words, manifest)
    with explained():
        if manifest is None:
            show_reply(_ask(words, **options), output=output)
            return
        evaluated = _evaluate(manifest, words, **options)
    show_evaluated(evaluated, output=output)
    raise SystemExit(0 if evaluated.finds_a_node else 1)


def _ask(words: tuple[str, ...], *, weight: int, token_file: Path | None, **options: Any) -> "Reply":
    from bayplan.config.flags import Flags
    from bayplan.runtimes.extender.ask_cluster import ask_cluster
    from bayplan.runtimes.extender.ask_files import ask_files
    from bayplan.runtimes.extender.ask_why import ask_why, read_token

    key = _pod_key(words, options["namespace"])
    if options["journal"]:
        return ask_files(options["journal"], key, weight=weight)
    token = read_token(token_file)
    if not options["from_cluster"]:
        return ask_why(options["server"] or [_SERVER], key, weight=weight, token=token)
    flags = Flags(**{name: options[name] for name in ("kubeconfig", "context", "in_cluster")})
    selector, port = options["selector"] or _SELECTOR, options["port"] or _PORT
    return ask_cluster(flags, key, selector=selector, port=port, weight=weight, token=token)


def _evaluate(manifest: str, policies: tuple[str, ...], *, weight: int, **options: Any) -> Any:
    from bayplan.cli.why_judges import judges_for
    from bayplan.config.flags import Flags
    from bayplan.runtimes.simulator.evaluate import evaluate
    from bayplan.runtimes.simulator.manifest import read_manifest

    made = read_manifest(manifest, namespace=options["namespace"])
    names = ("config", "kubeconfig", "context", "in_cluster", "snapshot")
    return evaluate(
        made.first,
        policies,
        Flags(**{name: options[name] for name in names}),
        weight=weight,
        find_judges=partial(judges_for, profile=options["profile"]),
        manifest=made,
    )


def _pod_key(words: tuple[str, ...], namespace: str | None) -> str:
    """``NAMESPACE/NAME`` out of ``web-1``, ``pod/web-1`` or, as logs and the page have it, ``shop/web-1``."""
    if len(words) != 1:
        raise click.UsageError("name one pod, such as pod/web-1, or give a manifest with -f")
    before, _, name = words[0].rpartition("/")
    if not name or "/" in before or before in _OTHER_KINDS:
        raise click.UsageError(f"{words[0]!r}: want pod/NAME or NAMESPACE/NAME")
    if not before or before in _PODS:
        return f"{namespace or 'default'}/{name}"
    if namespace not in (None, before):
        raise click.UsageError(f"{words[0]!r} is in namespace {before}, and -n says {namespace}: give one")
    return words[0]


def _check_words(words: tuple[str, ...], manifest: str | None) -> None:
    """With -f the words are policies; a pod among them is a misunderstanding."""
    for word in words if manifest is not None else ():
        if word.partition("/")[0] in _PODS and not Path(word).exists():
            raise click.UsageError(
                f"{word!r}: -f tries the pod of the manifest; name policies, or leave out -f"
            )


def _check_together(options: dict[str, Any], manifest: str | None) -> None:
    """Options that would have no effect are a misunderstanding."""
    given = {name for name, value in options.items() if value not in (None, ())}
    if manifest is not None:
        wrong, what = given.intersection(_ASKING), "asks a server, and -f tries a manifest: give one of them"
    elif options["journal"]:
        live = {*_ASKING, *_EVALUATING, "kubeconfig", "context", "in_cluster"} - {"journal"}
        wrong, what = given.intersection(live), "does not go with --journal, which asks nobody"
    elif options["from_cluster"]:
        wrong, what = given.intersection({*_EVALUATING, "server"}), "does not go with --from-cluster"
    else:
        wrong = given.intersection({*_EVALUATING, "kubeconfig", "context", "in_cluster", "selector", "port"})
        what = "goes with -f or with --from-cluster"
    for name in sorted(wrong):
        raise click.UsageError(f"--{name.replace('_', '-')} {what}")
