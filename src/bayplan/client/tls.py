"""TLS contexts: whom to trust, and which certificate to show. Files are read anew when they change."""

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
    """A context that is made anew when one of the files behind it has another content.

    Connections are kept by context: a new one means new connections, while those that are open go on.
    What cannot be used, as a new certificate whose key is still the old one, changes nothing.
    """

    def __init__(self, files: Sequence[Path], make: Callable[[], ssl.SSLContext | None]) -> None:
        """``make`` reads the files; `ValueError` or `OSError` says what is wrong with them."""
        self._files = [KeptFile(path) for path in files]
        self._make = make
        self._seen = self._useless = self._contents()
        self._context = make()

    def current(self) -> ssl.SSLContext | None:
        """The context of the files as they are, or as they were last when they were good."""
        contents = self._contents()
        if contents != self._seen:
            try:
                self._context = self._make()
                self._seen = contents
            except (ValueError, OSError) as error:
                # Tried again each time, since it may not be their fault; told once.
                if contents != self._useless:
                    log.warning("the certificates of before are used on: %s", error)
                self._useless = contents
        return self._context

    def _contents(self) -> list[bytes | None]:
        """Contents, and not only times: a Secret's files are swapped by a link and may keep theirs."""
        return [_content(file) for file in self._files]


def client_context(*, authority_pem: str = "", verify: bool = True) -> ssl.SSLContext:
    """A context that trusts this authority, or those of the system, or, without ``verify``, anybody."""
    context = ssl.create_default_context(cadata=authority_pem or None)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def show_certificate(context: ssl.SSLContext, *, certificate_pem: str, key_pem: str) -> None:
    """Show this certificate to servers that ask for one."""
    # Python loads key pairs from files only; what is written here exists for a moment, for us alone.
    with tempfile.TemporaryDirectory() as scratch:
        certificate, key = Path(scratch, "cert.pem"), Path(scratch, "key.pem")
        for path, text in ((certificate, certificate_pem), (key, key_pem)):
            path.touch(mode=0o600)
            path.write_text(text)
        context.load_cert_chain(certificate, key, password="")


def pem(data: str, file: Path) -> str:
    """The PEM text that a kubeconfig gives as base64 or as a file; data wins, as with kubectl.

    `ValueError` where there is none.
    """
    problem = "a certificate or key cannot be read"
    try:
        content = base64.b64decode("".join(data.split()), validate=True) if data else file.read_bytes()
    except binascii.Error as error:
        raise ValueError(f"{problem}: not base64 of a PEM file: {error}") from error
    except OSError as error:
        raise ValueError(f"{problem}: {file}: {error.strerror or error}") from error
    # PEM is ASCII; what is not, is in the comments that some bundles have.
    text = content.decode("ascii", errors="ignore")
    # An empty CA would mean that of the system: anybody's certificate.
    if not text.strip():
        raise ValueError(f"{problem}: {'base64 of nothing' if data else f'{file} is empty'}")
    return text


def _content(file: KeptFile) -> bytes | None:
    try:
        return file.content()
    except OSError:
        return None
