"""How large an answer may be. A small request can ask for gigabytes: the same broker 5,000 times, a partition with all
its producers 250,000 times. What does not fit is refused row by row; the first row always fits, whatever its size.
"""

from __future__ import annotations

from typing import Final

from muster.protocol.errors import ErrorCode

MOST_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""Of one answer (one to Fetch has `fetch.max.bytes`, one to a leader's JoinGroup what its members have sent). Kafka has
no such limit; no client asks for as much at once.
"""
TOO_LARGE: Final = ErrorCode.INVALID_REQUEST
"""The error of a row that did not fit: no client sends the same again."""
TOO_LARGE_TEXT: Final = f"The answer would have more than {MOST_ANSWER_BYTES} bytes: ask for fewer at once"


class AnswerSize:
    """What is left of an answer."""

    __slots__ = ("_is_first", "is_used_up", "left")

    def __init__(self, most: int = MOST_ANSWER_BYTES) -> None:
        self.left = most
        self.is_used_up = False
        """A row did not fit."""
        self._is_first = True

    def take(self, size: int) -> bool:
        """Whether a row of `size` bytes, or nearly, may be in the answer."""
        if size > self.left and not self._is_first:
            self.is_used_up = True
            return False
        self.left -= size
        self._is_first = False
        return True
