"""``bayplan init``: a first policy with its test, or a built-in policy, with its configuration."""

from pathlib import Path

import click

from bayplan.cli.failing import explained
from bayplan.cli.starter import UnknownPolicyError, first_files, names, policy_files, write_files

_EPILOG = f"""\b
Examples:
  bayplan init my-policy                       a policy of your own, and its test
  bayplan init my-costs --policy cost          a built-in, with all its arguments
  bayplan init both --policy cost --policy spread

Names for --policy: {", ".join(names())}.
"""


@click.command(epilog=_EPILOG, short_help="Write a first policy, its test, its configuration.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option(
    "--policy", "policies", multiple=True, metavar="NAME", help="Start with this built-in policy; repeatable."
)
@click.option("--force", is_flag=True, help="Replace files that exist already.")
def command(directory: Path, policies: tuple[str, ...], *, force: bool) -> None:
    """Write a commented policy, a test for it, and a configuration into DIRECTORY.

    With --policy it writes only a configuration, with these built-in policies.
    """
    try:
        texts = policy_files(policies) if policies else first_files()
        with explained():
            written = write_files(directory, texts, force=force)
    except UnknownPolicyError as error:
        raise click.BadParameter(str(error), param_hint="--policy") from error
    except FileExistsError as error:
        raise click.ClickException(f"{error} exists already; --force replaces it") from error
    for path in written:
        click.echo(f"wrote {path}")
    there = "" if directory == Path() else f"  cd {directory}\n"
    test = "  python -m pytest\n" if "test_policy.py" in texts else ""
    click.echo(
        f"\nNext:\n{there}  bayplan check --config bayplan.yaml\n{test}  bayplan serve --config bayplan.yaml"
    )
