"""What a verb raises that cannot be done or was asked wrongly, and what a wait raises that was in vain."""

from __future__ import annotations

from collections.abc import Sequence


class CannotBeDone(Exception):
    """What was asked for cannot be done now; the text says why."""


class WrongValue(ValueError):
    """A verb was given what it does not take; the text names the value, and what was expected."""


class WaitFailed(AssertionError):
    """What was waited for did not come in time. The text has all that explains it.

    `group_id`; `waited_for` and `now` in words; `timeline`: the lines of the group's history; `meddling`: what the test
    has done to the server, that may be why.
    """

    def __init__(
        self,
        group_id: str,
        waited_for: str,
        timeout_s: float,
        now: str,
        timeline: Sequence[str],
        meddling: Sequence[str] = (),
    ) -> None:
        self.group_id = group_id
        self.waited_for = waited_for
        self.timeout_s = timeout_s
        self.now = now
        self.timeline = tuple(timeline)
        self.meddling = tuple(meddling)
        told = [f"group {group_id} was not so after {timeout_s:g} s: {waited_for}", *_indented("now", now.splitlines())]
        told += _indented("what happened", self.timeline or ("nothing that its history tells",))
        if meddling:
            told += _indented("what the test has done to the server", self.meddling)
        super().__init__("\n".join(told))

    def __reduce__(self) -> tuple[object, ...]:
        """Can be sent from another process."""
        return type(self), (self.group_id, self.waited_for, self.timeout_s, self.now, self.timeline, self.meddling)


def _indented(head: str, lines: Sequence[str]) -> list[str]:
    return [f"  {head}:", *(f"    {line}" for line in lines)]


for _one in (CannotBeDone, WrongValue, WaitFailed):
    # tests know them by this name, and reports of tests have little room
    _one.__module__ = "muster.testing"
