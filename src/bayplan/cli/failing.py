"""Errors that a person can act on, shown as one line; everything else keeps its traceback."""

import contextlib
from collections.abc import Iterator

import click


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn the errors that Bayplan raises on purpose into ``Error: ...`` and exit code 1."""
    from bayplan.authoring.hooks import PolicyError
    from bayplan.client.errors import ApiError, ConnectError
    from bayplan.config.load import ConfigError
    from bayplan.install.errors import InstallError
    from bayplan.kube.quantity import QuantityError
    from bayplan.ops.tls import TlsError
    from bayplan.ops.tracing import TracingError
    from bayplan.recording.lines import RecordingError
    from bayplan.runtimes.extender.ask import AskError
    from bayplan.runtimes.listener import ListenError
    from bayplan.snapshot.files import SnapshotError

    ours = (
        ApiError,
        AskError,
        ConfigError,
        ConnectError,
        InstallError,
        ListenError,
        PolicyError,
        QuantityError,
        RecordingError,
        SnapshotError,
        TlsError,
        TracingError,
    )
    try:
        yield
    except ours as error:
        raise click.ClickException(str(error)) from error
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        # A file that somebody named; without a name it is none of his.
        if error.filename is None:
            raise
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
