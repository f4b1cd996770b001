"""Kafka's error codes, such as `ErrorCode.UNKNOWN_MEMBER_ID`, with Kafka's name and message for each code."""

from __future__ import annotations

from muster.protocol.messages.error_codes import ERRORS, ErrorCode

__all__ = ["ErrorCode", "error_message", "error_name", "is_retriable"]


def error_name(code: int) -> str:
    """Kafka's name of a code ("UNKNOWN_MEMBER_ID"); "UNKNOWN(n)" for a code that Kafka 4.4 does not have."""
    row = ERRORS.get(code)
    return f"UNKNOWN({code})" if row is None else row[0]


def error_message(code: int) -> str:
    """Kafka's default message of a code; "NONE" for 0, and "" for a code that Kafka 4.4 does not have."""
    row = ERRORS.get(code)
    return "" if row is None else row[2]


def is_retriable(code: int) -> bool:
    """Whether Kafka's clients try again after this code."""
    row = ERRORS.get(code)
    return row is not None and row[1]
