"""Kafka's arithmetic of rates (Rate over a WindowedSum) and of credits (TokenBucket).

Times are milliseconds of a monotonic clock. A `Windows` has the number and the length of the windows.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

_LONGEST_MS: Final = 2**31 - 1
"""The longest throttle time that an answer can have."""


class Windows(NamedTuple):
    """The property `quota.window.num`, and `quota.window.size.seconds` in ms."""

    number: int
    size_ms: int


class _Sample:
    __slots__ = ("began_ms", "last_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.begin(now_ms)

    def begin(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.total = 0.0


class Rate:
    """The use per second, on average over the present window and those before it."""

    __slots__ = ("_current", "_samples", "last_ms", "windows")

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self.windows = windows
        self._samples = [_Sample(now_ms)]
        self._current = 0
        self.last_ms = now_ms
        """The time of the last use."""

    def record(self, value: float, now_ms: int) -> None:
        """Add a use; a negative value corrects earlier ones."""
        self.last_ms = now_ms
        sample = self._samples[self._current]
        if now_ms - sample.began_ms >= self.windows.size_ms:
            sample = self._advance(now_ms)
        sample.total += value
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> _Sample:
        # one more than the number of windows: the oldest one began before them and extends into them
        self._current = (self._current + 1) % (self.windows.number + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].begin(now_ms)
        return self._samples[self._current]

    def measure(self, now_ms: int) -> float:
        """The use per second."""
        self._forget(now_ms)
        return sum([sample.total for sample in self._samples]) / (self._measured_ms(now_ms) / 1000)

    def _forget(self, now_ms: int) -> None:
        too_old_ms = self.windows.number * self.windows.size_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= too_old_ms:
                sample.begin(now_ms)

    def _measured_ms(self, now_ms: int) -> int:
        """The measured time: at least all windows but the present one."""
        size_ms, least = self.windows.size_ms, self.windows.number - 1
        elapsed_ms = now_ms - min([sample.began_ms for sample in self._samples])
        full = elapsed_ms // size_ms
        if full < least:
            elapsed_ms += (least - full) * size_ms
        return max(elapsed_ms, 1)

    def excess_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may be used until the rate falls to `bound`; 0 when it is not above."""
        rate = self.measure(now_ms)
        if rate <= bound:
            return 0
        if bound <= 0:
            return _LONGEST_MS
        return _rounded((rate - bound) / bound * self._measured_ms(now_ms))


class TokenBucket:
    """Credits that grow with time, up to the sum of all windows. A client without credits must wait."""

    __slots__ = ("_credits", "_updated_ms", "last_ms", "windows")

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self.windows = windows
        self._credits = math.inf
        self._updated_ms = self.last_ms = now_ms

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Use so many credits. `bound`: the number of new credits per second."""
        self.last_ms = now_ms
        self._credits = self._refilled(bound, now_ms) - value

    def excess_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may be used until the credits are not negative; 0 when they are not."""
        self._credits = self._refilled(bound, now_ms)
        return _rounded(-self._credits / bound * 1000) if self._credits < 0 else 0

    def _refilled(self, bound: float, now_ms: int) -> float:
        most = self.windows.number * self.windows.size_ms / 1000 * bound
        come = bound * (now_ms - self._updated_ms) / 1000
        self._updated_ms = now_ms
        return min(most, self._credits + come)


def _rounded(time_ms: float) -> int:
    return int(min(math.floor(time_ms + 0.5), _LONGEST_MS))
