"""The errors of verbs that cannot be done, of verbs with wrong values, and of waits that failed."""

from __future__ import annotations

from collections.abc import Sequence


class CannotBeDone(Exception):
    """The action cannot be done now; the text says why."""


class WrongValue(ValueError):
    """A verb was given a wrong value. The text names the value, and what was expected."""


class WaitFailed(AssertionError):
    """A condition did not become true in time. The text has all that explains it.

    `group_id`; `waited_for` and `now` in words; `timeline`: the lines of the group's history. `meddling`: the
    interventions of the test, which may be the cause.
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
        """Makes the error fit to be sent from another process."""
        return type(self), (self.group_id, self.waited_for, self.timeout_s, self.now, self.timeline, self.meddling)


def _indented(head: str, lines: Sequence[str]) -> list[str]:
    return [f"  {head}:", *(f"    {line}" for line in lines)]


for _one in (CannotBeDone, WrongValue, WaitFailed):
    # tests know them by this name, and reports of tests have little room
    _one.__module__ = "muster.testing"
