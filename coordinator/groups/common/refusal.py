"""The refusal of a heartbeat, with Kafka's message, which clients receive."""

from __future__ import annotations

from muster.protocol.errors import ErrorCode


class Refused(Exception):  # always caught, and turned into an answer
    """Raised to refuse a request with this error code and message."""

    def __init__(self, error: int, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def invalid(message: str) -> Refused:
    """The refusal of an invalid request."""
    return Refused(ErrorCode.INVALID_REQUEST, message)


def check_text(text: str | None, message: str) -> None:
    """Raise Refused if the text is given and empty, or has only blanks."""
    if text is not None and not text.strip(_BLANKS):
        raise invalid(message)


_BLANKS = "".join(map(chr, range(33)))
"""The characters that Java's String.trim removes."""
