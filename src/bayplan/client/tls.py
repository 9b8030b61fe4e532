"""TLS contexts of clients; a context from files is remade when the files change."""

import base64
import binascii
import logging
import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bayplan.client.kept_file import KeptFile

log = logging.getLogger(__name__)


class FileContext:
    """A TLS context that is remade when the content of one of its files changes.

    Connections are pooled by context: a new context means new connections, while open ones go on. Files that
    cannot be used, such as a new certificate with the old key, change nothing.
    """

    def __init__(self, files: Sequence[Path], make: Callable[[], ssl.SSLContext | None]) -> None:
        """``make`` reads the files, and raises `ValueError` or `OSError` if they are wrong."""
        self._files = [KeptFile(path) for path in files]
        self._make = make
        self._seen = self._useless = self._contents()
        self._context = make()

    def current(self) -> ssl.SSLContext | None:
        """The context of the present files, or of the last usable ones."""
        contents = self._contents()
        if contents != self._seen:
            try:
                self._context = self._make()
                self._seen = contents
            except (ValueError, OSError) as error:
                # Retried each time, since the error may not be in the files; logged once.
                if contents != self._useless:
                    log.warning("the certificates of before are used on: %s", error)
                self._useless = contents
        return self._context

    def _contents(self) -> list[bytes | None]:
        """The files' contents; not only mtimes, since a Secret's files are swapped by a symlink."""
        return [_content(file) for file in self._files]


def client_context(*, authority_pem: str = "", verify: bool = True) -> ssl.SSLContext:
    """A context that trusts this CA, or else the system's CAs, or, without ``verify``, any server."""
    context = ssl.create_default_context(cadata=authority_pem or None)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def show_certificate(context: ssl.SSLContext, *, certificate_pem: str, key_pem: str) -> None:
    """Use this client certificate."""
    # Python loads key pairs only from files; these exist for a moment, and only we may read them.
    with tempfile.TemporaryDirectory() as scratch:
        certificate, key = Path(scratch, "cert.pem"), Path(scratch, "key.pem")
        for path, text in ((certificate, certificate_pem), (key, key_pem)):
            path.touch(mode=0o600)
            path.write_text(text)
        context.load_cert_chain(certificate, key, password="")


def pem(data: str, file: Path) -> str:
    """The PEM text of a kubeconfig's base64 data or file; data takes precedence, as with kubectl.

    Raises `ValueError` if there is none.
    """
    problem = "a certificate or key cannot be read"
    try:
        content = base64.b64decode("".join(data.split()), validate=True) if data else file.read_bytes()
    except binascii.Error as error:
        raise ValueError(f"{problem}: not base64 of a PEM file: {error}") from error
    except OSError as error:
        raise ValueError(f"{problem}: {file}: {error.strerror or error}") from error
    # PEM is ASCII; other characters are in comments of some bundles.
    text = content.decode("ascii", errors="ignore")
    # With an empty CA, Python would trust the system's CAs.
    if not text.strip():
        raise ValueError(f"{problem}: {'base64 of nothing' if data else f'{file} is empty'}")
    return text


def _content(file: KeptFile) -> bytes | None:
    try:
        return file.content()
    except OSError:
        return None
