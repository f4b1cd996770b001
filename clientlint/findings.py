"""What was found: breaches of the same rule by the same client and API are one finding. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from muster.clientlint.calls import Certainty
from muster.clientlint.rules import RULES
from muster.clientlint.watcher import Broken

MAX_FINDINGS: Final = 1_000
"""The most findings that are kept. Further ones are only counted."""
MAX_EVIDENCE: Final = 3
"""The most sentences of evidence in a finding: the first ones."""


class Finding:
    """One rule that one client breaks by one API. `certainty` is that of the surest breach."""

    def __init__(self, first: Broken) -> None:
        self.rule = RULES[first.rule]
        self.client = first.client
        self.api = first.api
        self.certainty = first.certainty
        self.count = 0
        self.first_ms = self.last_ms = first.at_ms
        self.evidence: list[tuple[int, str]] = []

    def add(self, one: Broken) -> None:
        """Count another breach."""
        self.count += 1
        self.last_ms = one.at_ms
        if one.certainty is Certainty.SURE and self.certainty is Certainty.PERHAPS:
            # sentences that only suspect give way to those that prove
            self.certainty, self.evidence = Certainty.SURE, []
        if len(self.evidence) < MAX_EVIDENCE:
            self.evidence.append((one.at_ms, one.words))

    def to_json(self, wall_offset_ms: int = 0) -> dict[str, Any]:
        """The finding as JSON. Times are those of the wall clock: `wall_offset_ms` later than the linter's."""
        client = self.client
        return {
            "rule": self.rule.id,
            "harm": self.rule.harm,
            "certainty": str(self.certainty),
            "client_id": client.client_id,
            "software": client.software,
            "version": client.version,
            "host": client.host,
            "api": self.api,
            "count": self.count,
            "first_ms": self.first_ms + wall_offset_ms,
            "last_ms": self.last_ms + wall_offset_ms,
            "wrong": self.rule.wrong,
            "evidence": [{"at_ms": at_ms + wall_offset_ms, "words": words} for at_ms, words in self.evidence],
            "do": self.rule.do,
        }


class Findings:
    """All findings, in the order of their first breach."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[object, ...], Finding] = {}
        self.not_kept = 0
        """How many breaches were not kept, because there were too many findings."""

    def add(self, one: Broken) -> None:
        """Take a breach."""
        key = one.rule, one.client, one.api
        found = self._by_key.get(key)
        if found is None:
            if len(self._by_key) >= MAX_FINDINGS:
                self.not_kept += 1
                return
            found = self._by_key[key] = Finding(one)
        found.add(one)

    @property
    def all(self) -> Sequence[Finding]:
        """The findings: sure ones first, then in the order of their first breach."""
        return sorted(self._by_key.values(), key=lambda one: one.certainty is not Certainty.SURE)
