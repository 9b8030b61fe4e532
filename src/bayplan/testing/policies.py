"""The policies of a configuration, or of files, as the server would load them."""

from collections.abc import Sequence
from pathlib import Path

from bayplan.authoring.registry import Policy
from bayplan.config.flags import Flags, load_all


def load_policies(where: Path | str | Sequence[str]) -> list[Policy]:
    """The policies that a configuration file names, or those of policy files in a list, for `run_policy`."""
    if isinstance(where, str | Path):
        return load_all((), Flags(config=Path(where))).policies
    return load_all(where, Flags()).policies
