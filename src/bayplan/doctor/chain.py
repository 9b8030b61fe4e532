"""Several extenders beside each other: who binds, who comes last."""

from collections.abc import Iterator

from bayplan.doctor.extender_entry import may_be_ours
from bayplan.doctor.finding import Finding
from bayplan.doctor.scheduler_file import Entry, SchedulerFile
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_entries import KEEP_NOT_LAST, TWO_BINDERS


def check_chain(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    """What one extender means for the others."""
    binders = [entry for entry in file.entries if entry.text("bindVerb")]
    for entry in binders[1:]:
        what = f"extender {entry.name} binds, and so does {binders[0].name}"
        yield file.found(TWO_BINDERS, entry.at("bindVerb"), what)
    keep = setting.ours.keep if setting.ours else None
    if keep is None:
        return
    order = asked_in_order(file)
    for place, entry in enumerate(order[:-1]):
        if may_be_ours(file, entry, setting):
            what = f"answers are cut down to {keep} nodes, and {order[place + 1].name} filters after us"
            yield file.found(KEEP_NOT_LAST, entry.path, what)


def asked_in_order(file: SchedulerFile) -> list[Entry]:
    """The extenders that filter, as kube-scheduler asks them: ignorable ones go last."""
    filtering = [entry for entry in file.entries if entry.text("filterVerb")]
    return sorted(filtering, key=lambda entry: entry.flag("ignorable"))
