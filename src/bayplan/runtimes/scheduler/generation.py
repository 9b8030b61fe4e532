"""A generation of a scheduler: a judge for the pods of each ``schedulerName``."""

from collections.abc import Mapping
from dataclasses import dataclass

from bayplan.runtimes.generation import Generation as Policies
from bayplan.runtimes.scheduler.judge import Judge


@dataclass(kw_only=True)
class Generation(Policies):
    """One set of policies, and the judges that use them."""

    judges: Mapping[str, Judge]
    """The judge for each ``schedulerName``."""
