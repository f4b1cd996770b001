"""Refused requests of the HTTP door, and their answers: `{"error": {"code": …, "message": …}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import JSONResponse

STATUSES: Final[Mapping[str, int]] = {
    "bad-request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not-found": 404,
    "method-not-allowed": 405,
    "conflict": 409,
    "too-large": 413,
    "fault": 500,
    "busy": 503,
    "unavailable": 503,
    "timeout": 504,
}
"""The HTTP status by the `code` of an error."""
_ENDS_THE_CONNECTION: Final = ("too-large", "busy")
"""With these errors the connection ends: the rest of the body is not read, or others wait for the connection."""


class Failure(Exception):
    """A request is refused; `code` is one of `STATUSES`."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details is not None:
            error["details"] = dict(self.details)
        return {"error": error}

    def response(self) -> JSONResponse:
        """The answer."""
        headers = {"Connection": "close"} if self.code in _ENDS_THE_CONNECTION else {}
        if self.code == "unauthorized":
            headers["WWW-Authenticate"] = "Bearer"
        return JSONResponse(self.to_json(), STATUSES[self.code], headers)
