"""How large an answer may become. A small request can ask for gigabytes, if it names a large thing thousands of times.
Rows that do not fit are refused. The first row always fits.

Each API has its `_ROW_BYTES`: the size of a row in an answer without its texts.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.api.unsent import Taken
from muster.coordinator.system.jobs import PendingResult
from muster.protocol.errors import ErrorCode

MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""The limit of one answer. Kafka has none, and no client asks for so much at once. (Fetch has `fetch.max.bytes`.)"""
TOO_LARGE: Final = ErrorCode.INVALID_REQUEST
"""The error of a row that did not fit. A client does not send the same request again after this error."""
TOO_LARGE_TEXT: Final = f"The answer would have more than {MAX_ANSWER_BYTES} bytes: ask for fewer at once"
NO_LIMIT: Final = 1 << 62
COUNTED_FROM_BYTES: Final = 64 * 1024
"""An answer of fewer bytes is made at once. Larger answers share one memory limit (`api.unsent`)."""
OBJECT_BYTES: Final = 100
"""The memory of a row, besides the bytes that it has in the answer."""


class AnswerSize:
    """The size that an answer may still grow by. A job adds the size of each row, and then yields `pause()`."""

    __slots__ = ("_bytes", "_context", "_is_first", "_node", "_taken", "is_used_up", "left")

    def __init__(self, node: Node, context: RequestContext, max_bytes: int = MAX_ANSWER_BYTES) -> None:
        """`max_bytes`: the limit. `NO_LIMIT` is for an answer whose size is limited elsewhere."""
        self.left = max_bytes
        self.is_used_up = False
        """Whether a row did not fit."""
        self._is_first = True
        self._node = node
        self._context = context
        self._taken: Taken | None = None
        self._bytes = 0

    def add(self, size: int) -> bool:
        """Add a row of about `size` bytes, if the answer may still grow by it. Returns whether it may."""
        if size > self.left and not self._is_first:
            self.is_used_up = True
            return False
        self.left -= size
        self._is_first = False
        self._bytes += size + OBJECT_BYTES
        if self._bytes > COUNTED_FROM_BYTES:
            self._count()
        return True

    def pause(self) -> PendingResult | None:
        """What a job yields after a row. A pending result completes when the answer may grow further."""
        taken = self._taken
        if taken is None or taken.may_grow:
            return None
        later = PendingResult()
        taken.when_it_may(lambda: later(None))
        return later

    def _count(self) -> None:
        channel = self._context.channel
        if not channel.closed:
            self._taken = channel.answer_memory(self._node.unsent)
            self._taken.set(self._bytes)
