"""Makes the server's part of the report of a failed test: warnings, histories of groups, and interventions."""

from __future__ import annotations

from typing import Final

from muster.testcontrol.errors import CannotBeDone
from muster.testing.server import Muster

MAX_GROUPS: Final = 20
"""The most groups whose history is in a report."""
Sections = list[tuple[str, str]]


class Used:
    """The use of a server by one test."""

    def __init__(self, muster: Muster, began_ms: int) -> None:
        """`began_ms`: when the test began, in ms since 1970."""
        self.muster = muster
        self._began_ms = began_ms
        self._kept: Sections | None = None
        self._done: list[str] | None = None

    def keep_done(self) -> None:
        """Keep the interventions in words, because they will be undone now."""
        if self._done is None and self.muster.is_running:
            self._done = self._interventions()

    def keep(self) -> None:
        """Keep all sections of the report, because the server will end now."""
        if self._kept is None:
            self._kept = self._sections()

    @property
    def sections(self) -> Sections:
        """The sections of the report: pairs of a title and a text."""
        return self._sections() if self._kept is None else self._kept

    def _interventions(self) -> list[str]:
        muster = self.muster
        found: list[str] = muster.bridge.call(lambda: muster.verbs().interventions())
        return found

    def _sections(self) -> Sections:
        muster = self.muster
        found: Sections = []
        warnings = [line for line in muster.lines.warnings() if line.wall_ms >= self._began_ms]
        if warnings:
            found.append(("Muster: warnings of the server", "\n".join(map(str, warnings))))
        if not muster.is_running:
            return [*found, ("Muster: groups", "the server did not run any more")]
        try:
            done = self._interventions() if self._done is None else self._done
            if done:
                found.append(("Muster: what the test has done to the server", "\n".join(done)))
            found += self._groups()
        except CannotBeDone as refusal:  # the server has just ended, or does not answer
            found.append(("Muster: groups", str(refusal)))
        return found

    def _groups(self) -> Sections:
        found: Sections = []
        for group_id in self.muster.groups:
            group = self.muster.group(group_id)
            try:
                events = group.events()
            except CannotBeDone:
                break  # this cluster keeps no history
            if events and events[-1]["time"] >= self._began_ms and len(found) < MAX_GROUPS:
                text = "\n".join([str(group.describe()), "", *group.history(everything=True)])
                found.append((f"Muster: group {group_id}", text))
        return found
