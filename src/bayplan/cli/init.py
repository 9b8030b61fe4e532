"""``bayplan init``: a first policy, its test and its configuration."""

from pathlib import Path

import click


@click.command(short_help="Write a first policy, its test, its configuration.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--force", is_flag=True, help="Replace files that are there already.")
def command(directory: Path, *, force: bool) -> None:
    """Write a commented policy, a test for it, and a configuration into DIRECTORY."""
    from bayplan.cli.starter import write_starter

    try:
        written = write_starter(directory, force=force)
    except FileExistsError as error:
        raise click.ClickException(f"{error} is there already; --force replaces it") from error
    for path in written:
        click.echo(f"wrote {path}")
    there = "" if directory == Path() else f"cd {directory} && "
    click.echo(
        f"\nNext:\n  {there}bayplan check --config bayplan.yaml\n  {there}python -m pytest\n"
        f"  {there}bayplan serve --config bayplan.yaml"
    )
