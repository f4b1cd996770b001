"""Why a request of the control is refused: the status and the `Error` of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

STATUSES: Final[Mapping[str, int]] = {
    "bad-request": 400,
    "unauthorized": 401,
    "not-found": 404,
    "method-not-allowed": 405,
    "conflict": 409,
    "too-large": 413,
    "fault": 500,
    "busy": 503,
    "timeout": 504,
}
"""The HTTP status by the `code` of an error."""


class Failure(Exception):
    """A request is refused; `code` is one of `STATUSES`."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return STATUSES[self.code]

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details is not None:
            error["details"] = dict(self.details)
        return {"error": error}
