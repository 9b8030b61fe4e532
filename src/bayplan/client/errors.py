"""The errors of requests to the API server; their texts say what to do."""

import os

import aiohttp
import msgspec


class ConnectError(Exception):
    """The API server cannot be used: because of the kubeconfig, a certificate or the network."""


class Unsent(ConnectError):
    """The request was certainly not sent, such as without credentials or to a server not to be trusted."""


class Unreachable(ConnectError):
    """The API server was not reached or did not answer: a retry may succeed."""


class NotSent(Unreachable, Unsent):
    """The request was certainly not sent; a retry may succeed."""


class Silent(Unreachable):
    """A streamed answer, such as a watch, has gone silent."""


class ApiError(Exception):
    """The API server answered with an error status."""

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
    """The message in an error's body: of a Kubernetes ``Status``, or the beginning of a proxy's page."""
    try:
        status = _STATUS.decode(content)
    except msgspec.MsgspecError:
        status = _Status()
    return status.message or status.reason or content[:200].decode(errors="replace")


def in_words(error: Exception) -> str:
    """The text of a network error, without reprs of aiohttp's objects."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"cannot connect to {error.host}:{error.port}: {error.certificate_error}"
    if not isinstance(error, aiohttp.ClientConnectorError):
        return str(error) or type(error).__name__
    cause = error.os_error
    text = cause.strerror or str(cause)
    if cause.errno and text.startswith("Connect call failed"):
        # asyncio's text names only the address; errno says why.
        text = os.strerror(cause.errno)
    return f"cannot connect to {error.host}:{error.port}: {text}"
