"""What can go wrong between us and the API server, in words that say what to do."""

import os

import aiohttp
import msgspec


class ConnectError(Exception):
    """There is no usable way to the API server: kubeconfig, certificate or network."""


class Unreachable(ConnectError):
    """The API server could not be reached, or gave no answer: the same may work a moment later."""


class NotSent(Unreachable):
    """Time ran out before anything went out: nothing can have come of it."""


class Silent(Unreachable):
    """An answer that goes on and on has gone quiet."""


class ApiError(Exception):
    """The API server answered, and the answer was no."""

    def __init__(
        self, status: int, message: str, *, doing: str, retry_after_seconds: float | None = None
    ) -> None:
        hint = _HINTS.get(status, "")
        super().__init__(f"{doing}: the API server said {status}: {message}{hint}")
        self.status = status
        self.message = message
        self.retry_after_seconds = retry_after_seconds


_HINTS = {
    401: "; the token or certificate in the kubeconfig is not accepted",
    403: "; the user lacks a right: `bayplan render` prints the RBAC rules, see docs/install.md",
}


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""


_STATUS = msgspec.json.Decoder(_Status)


def message_of(content: bytes) -> str:
    """What an answer says, be it a ``Status`` of Kubernetes or the page of something in between."""
    try:
        status = _STATUS.decode(content)
    except msgspec.MsgspecError:
        status = _Status()
    return status.message or status.reason or content[:200].decode(errors="replace")


def in_words(error: Exception) -> str:
    """What went wrong on the way, without the library's own objects in it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"cannot connect to {error.host}:{error.port}: {error.certificate_error}"
    if not isinstance(error, aiohttp.ClientConnectorError):
        return str(error) or type(error).__name__
    cause = error.os_error
    text = cause.strerror or str(cause)
    if cause.errno and text.startswith("Connect call failed"):
        # So says asyncio of each address; the number says why.
        text = os.strerror(cause.errno)
    return f"cannot connect to {error.host}:{error.port}: {text}"
