"""Writes the configuration into a recording (files, contents, result), and loads it again for a replay."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from bayplan.config.flags import DEFAULT_SCHEDULER_NAME, Flags, Loaded, load_all
from bayplan.config.v1 import SchedulerProfileEntry
from bayplan.config.watching import WatchedFiles
from bayplan.kube.duration import Duration
from bayplan.recording.lines import Configuration, FileText, ProfileTold, RecordingError
from bayplan.recording.redact import without_secrets


def describe(files: Sequence[str], flags: Flags, loaded: Loaded) -> Configuration:
    """The line for a configuration that was loaded from these files with these flags."""
    config = str(flags.config.absolute()) if flags.config else ""
    paths = [path.absolute() for path in WatchedFiles(files, flags, loaded).paths]
    plain = without_secrets(msgspec.to_builtins(loaded.config, enc_hook=_text))
    return Configuration(
        config=config,
        uses=tuple(_absolute(use) for use in files),
        text=msgspec.json.encode(plain).decode(),
        files=tuple(_file(path, told=str(path) != config) for path in paths),
    )


def reload_described(told: Configuration) -> Loaded:
    """Load the configuration again; raises `RecordingError` if it has changed.

    Code in a recording is never run: only local files that have not changed.
    """
    for file in told.files:
        found = _digest(Path(file.path))
        if found != file.sha256:
            state = "has changed since" if found else "is not here"
            raise RecordingError(
                f"{file.path} {state}: say with which policies, as policy files or with --config FILE"
            )
    if not told.config and not told.uses and not told.profiles:
        raise RecordingError("the recording does not say where its policies are from: give --config FILE")
    loaded = load_all(told.uses, Flags(config=Path(told.config) if told.config else None))
    # Flags may have named other policies than the file.
    scheduler = msgspec.structs.replace(loaded.config.scheduler, profiles=())
    return with_profiles(
        replace(loaded, config=msgspec.structs.replace(loaded.config, scheduler=scheduler)), told
    )


def with_profiles(loaded: Loaded, told: Configuration) -> Loaded:
    """The configuration with the recorded profiles of schedulers that it does not name itself."""
    entries = {
        each.scheduler_name: SchedulerProfileEntry(
            scheduler_name=each.scheduler_name, kube_scheduler_config=each.kube_scheduler_config
        )
        for each in told.profiles
    }
    entries |= {entry.scheduler_name: entry for entry in loaded.config.scheduler.profiles}
    scheduler = msgspec.structs.replace(loaded.config.scheduler, profiles=tuple(entries.values()))
    return replace(loaded, config=msgspec.structs.replace(loaded.config, scheduler=scheduler))


def describe_profiles(loaded: Loaded) -> tuple[ProfileTold, ...]:
    """The profiles of a scheduler with this configuration."""
    entries = loaded.config.scheduler.profiles
    if not entries:
        return (ProfileTold(DEFAULT_SCHEDULER_NAME),)
    return tuple(ProfileTold(entry.scheduler_name, _profile_file(entry, loaded)) for entry in entries)


def _profile_file(entry: SchedulerProfileEntry, loaded: Loaded) -> str:
    file = entry.kube_scheduler_config
    return str((loaded.base / file).absolute()) if file else ""


def _file(path: Path, *, told: bool) -> FileText:
    """A file; the configuration's own text may contain secrets, and is recorded elsewhere without them."""
    try:
        content = path.read_bytes()
    except OSError:
        return FileText(str(path), "")
    text = content.decode(errors="replace") if told else ""
    return FileText(str(path), hashlib.sha256(content).hexdigest(), text)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _absolute(use: str) -> str:
    """The absolute path of a policy file; the name of a module unchanged."""
    file, colon, name = use.partition(":")
    return f"{Path(file).absolute()}{colon}{name}" if Path(file).is_file() else use


def _text(value: Any) -> str:
    if isinstance(value, Duration):
        return value.text
    raise NotImplementedError(f"no way to write a {type(value)!r}")
