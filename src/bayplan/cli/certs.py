"""``bayplan certs``: a CA of our own, and certificates for the server and for kube-scheduler."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bayplan.install.certificate_files import Found

_DIRECTORY = click.Path(file_okay=False, path_type=Path)
_DAYS = re.compile(r"(\d+)d?")
_CA_DAYS = 3650
_BEFORE_DAYS = 30
# A date has no room for any number of days.
_MOST_DAYS = 36500
# A new CA: the options in their order, and the function behind each.
_STEPS = {
    "rotate_ca": "rotate_authority",
    "reissue": "reissue",
    "forget_old_ca": "forget_old_authority",
}
_EPILOG = """\b
Examples:
  bayplan certs create --out certs --dns bayplan.kube-system.svc --ip 10.96.0.50
  bayplan certs create --out certs --keep-ca --client kube-scheduler      client.crt was lost
  bayplan certs show certs
  bayplan certs show certs -o yaml | kubectl apply -f -      as Secrets
  bayplan certs renew certs --before 30d                     from a timer: does nothing until it is time
  bayplan certs renew certs --rotate-ca                      a new CA: then --reissue, then --forget-old-ca
"""


class _Days(click.ParamType[int]):
    name = "days"

    def __init__(self, *, least: int) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _DAYS.fullmatch(str(value))
        if not found:
            self.fail(f"{value!r} is no number of days, such as 30d", param, ctx)
        days = int(found[1])
        if days < self._least:
            self.fail(
                f"{value!r}: what lasts so long has ended already; give {self._least} or more", param, ctx
            )
        if days > _MOST_DAYS:
            self.fail(f"{value!r}: more than a hundred years; give {_MOST_DAYS} or fewer", param, ctx)
        return days


@click.group(epilog=_EPILOG, short_help="Make and renew certificates.")
def command() -> None:
    """Make and renew the certificates of mutual TLS: a CA, one for the server, one for kube-scheduler.

    Needs pip install 'bayplan[certs]'.
    """


@command.command(short_help="Make a CA and both certificates.")
@click.option("--out", type=_DIRECTORY, required=True, metavar="DIR", help="Where the files go.")
@click.option(
    "--dns",
    multiple=True,
    metavar="NAME",
    help="Host name by which kube-scheduler calls the server; repeatable.",
)
@click.option(
    "--ip",
    "ips",
    multiple=True,
    metavar="IP",
    help="IP address by which kube-scheduler calls the server; repeatable.",
)
@click.option(
    "--client", default="kube-scheduler", show_default=True, metavar="NAME", help="Name of the caller."
)
@click.option(
    "--days", type=_Days(least=1), default="365", show_default=True, help="How long certificates last."
)
@click.option("--ca-days", type=_Days(least=1), show_default=str(_CA_DAYS), help="How long the CA lasts.")
@click.option("--keep-ca", is_flag=True, help="Keep the existing CA, and make only the missing certificates.")
@click.option("--force", is_flag=True, help="Replace files that exist already.")
def create(out: Path, ca_days: int | None, keep_ca: bool, **options: Any) -> None:
    """Make a CA, and certificates for the server and for kube-scheduler.

    Keys are readable by you alone. Keep ca.key away from the cluster: who has it can make callers.
    """
    from bayplan.cli.failing import explained

    if keep_ca and ca_days:
        raise click.UsageError("--ca-days is for a new CA: leave it away, or --keep-ca")
    with explained():
        tools = certificate_tools()
        if keep_ca:
            written = tools.create_lost(out, **options)
        else:
            written = tools.create(out, ca_days=ca_days or _CA_DAYS, **options)
    for path in written:
        click.echo(f"wrote {path}")


@command.command(short_help="Renew certificates that expire soon.")
@click.argument("directory", type=_DIRECTORY, metavar="DIR")
@click.option(
    "--before",
    type=_Days(least=0),
    show_default=str(_BEFORE_DAYS),
    help="Renew certificates that expire in fewer days than this; 0: only expired ones.",
)
@click.option("--rotate-ca", is_flag=True, help="First: make a new CA; ca.crt then holds both.")
@click.option("--reissue", is_flag=True, help="Then: sign certificates with the new CA.")
@click.option("--forget-old-ca", is_flag=True, help="Last: ca.crt holds only the new CA.")
def renew(directory: Path, before: int | None, **steps: bool) -> None:
    """Renew what ends soon, or has no key or no CA that fits, with the names that it has, and keep the CA.

    A running server reads its files anew; kube-scheduler does so with its certificate, but reads the CA once.
    So a new CA takes three steps, and after each of them the files are handed out; after the first,
    kube-scheduler is restarted.
    """
    from bayplan.cli.failing import explained

    step = _one_step(steps)
    if step and before is not None:
        raise click.UsageError("--before is for what ends soon: a step of a new CA is taken when you say so")
    with explained():
        tools = certificate_tools()
        if step:
            written = getattr(tools, step)(directory)
        else:
            written = tools.renew(directory, before_days=_BEFORE_DAYS if before is None else before)
    for path in written:
        click.echo(f"wrote {path}")
    if not written:
        click.echo("nothing to do")


def _one_step(given: dict[str, bool]) -> str | None:
    """The function behind the step that was asked for; two at once would turn callers away."""
    asked = [option for option in _STEPS if given[option]]
    if len(asked) > 1:
        first, *others = (f"--{option.replace('_', '-')}" for option in asked)
        raise click.UsageError(
            f"{first} with {' and '.join(others)}: one step at a time, nothing was done; first --rotate-ca,"
            " then --reissue, last --forget-old-ca, and after each the files are handed out to both sides"
        )
    return _STEPS[asked[0]] if asked else None


@command.command(short_help="List certificates, and how long they are valid.")
@click.argument("directory", type=_DIRECTORY, metavar="DIR")
@click.option("--name", default="bayplan", show_default=True, help="The Secrets: NAME-tls, NAME-client-tls.")
@click.option("--namespace", "-n", default="kube-system", show_default=True, help="Their namespace.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Form of the output; yaml prints the Secrets.",
)
def show(directory: Path, name: str, namespace: str, output: str) -> None:
    """Show the certificates of a folder and when they end, or print them as Secrets.

    Exits 1 when one of them has ended, or a key is not that of its certificate.
    """
    from bayplan.cli.failing import explained
    from bayplan.install.names import refuse_bad_name, refuse_bad_namespace

    with explained():
        refuse_bad_name(name)
        refuse_bad_namespace(namespace)
        found = certificate_tools().show(directory)
        secrets = _secrets(directory, name, namespace) if output == "yaml" else ""
    now = datetime.now(UTC)
    ended = [each.file for each in found if each.facts.days_left(now) <= 0]
    if output == "yaml":
        click.echo(secrets, nl=False)
        if ended:
            # Whoever pipes this sees no table.
            what = f"`bayplan certs renew {directory}` renews it, or says what does"
            click.echo(f"{' and '.join(ended)} in {directory}: ended; {what}", err=True)
    elif output == "json":
        click.echo(json.dumps([_row(each, now) for each in found], indent=2))
    else:
        _table(found, now)
    raise SystemExit(1 if ended else 0)


def _row(each: "Found", now: datetime) -> dict[str, Any]:
    return {
        "file": each.file,
        "name": each.facts.name,
        "names": [*each.facts.dns, *each.facts.ips],
        "ends": each.facts.ends.isoformat(),
        "daysLeft": round(each.facts.days_left(now), 1),
        "note": each.note,
    }


def _secrets(directory: Path, name: str, namespace: str) -> str:
    from bayplan.install.evaluate import to_yaml
    from bayplan.install.secrets import tls_secret

    files = certificate_tools()
    pairs = [(f"{name}-tls", "server"), (f"{name}-client-tls", "client")]
    made = [tls_secret(secret, namespace, files.secret_data(directory, side)) for secret, side in pairs]
    return "---\n".join(map(to_yaml, made))


def _table(found: "list[Found]", now: datetime) -> None:
    from rich.table import Table

    from bayplan.cli.render import console

    table = Table(box=None, pad_edge=False)
    for title in ("FILE", "NAME", "CALLED", "ENDS", "DAYS LEFT", ""):
        table.add_column(title, overflow="fold")
    for each in found:
        days = each.facts.days_left(now)
        table.add_row(
            each.file,
            each.facts.name,
            ", ".join([*each.facts.dns, *each.facts.ips]),
            f"{each.facts.ends:%Y-%m-%d}",
            "ended" if days <= 0 else f"{days:.0f}",
            each.note,
        )
    console(markup=False).print(table)


def certificate_tools() -> ModuleType:
    """What needs the extra, or an error that names it."""
    from bayplan.install.errors import InstallError

    try:
        from bayplan.install import certificate_files
    except ImportError as error:
        raise InstallError(
            "certificates need another package: pip install 'bayplan[certs]'; or let cert-manager make them:"
            " bayplan render ... --tls cert-manager"
        ) from error
    return certificate_files
