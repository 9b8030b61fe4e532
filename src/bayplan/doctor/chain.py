"""Checks several extenders together: which one binds, and their order."""

from collections.abc import Iterator

from bayplan.doctor.extender_entry import may_be_ours
from bayplan.doctor.finding import Finding
from bayplan.doctor.scheduler_file import Entry, SchedulerFile
from bayplan.doctor.setting import Setting
from bayplan.doctor.traps_of_entries import KEEP_NOT_LAST, REASONS_NOT_LAST, TWO_BINDERS


def check_chain(file: SchedulerFile, setting: Setting) -> Iterator[Finding]:
    """What one extender means for the others."""
    binders = [entry for entry in file.entries if entry.text("bindVerb")]
    for entry in binders[1:]:
        what = f"extender {entry.name} binds, and so does {binders[0].name}"
        yield file.found(TWO_BINDERS, entry.at("bindVerb"), what)
    ours = setting.ours
    if ours is None or (ours.keep is None and not ours.leaves_reasons_out):
        return
    order = asked_in_order(file)
    for place, entry in enumerate(order[:-1]):
        if not may_be_ours(file, entry, setting):
            continue
        after = f"{order[place + 1].name} filters after us"
        if ours.keep is not None:
            yield file.found(
                KEEP_NOT_LAST, entry.path, f"answers are cut down to {ours.keep} nodes, and {after}"
            )
        if ours.leaves_reasons_out:
            yield file.found(REASONS_NOT_LAST, entry.path, f"answers leave reasons out, and {after}")


def asked_in_order(file: SchedulerFile) -> list[Entry]:
    """The extenders that filter, as kube-scheduler asks them: ignorable ones go last."""
    filtering = [entry for entry in file.entries if entry.text("filterVerb")]
    return sorted(filtering, key=lambda entry: entry.flag("ignorable"))
