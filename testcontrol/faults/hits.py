"""The log of faults: which rule hit which request."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from muster.testcontrol.expected import whole
from muster.testcontrol.faults.matching import Request
from muster.testcontrol.faults.rule import Rule

MOST_HITS: Final = 1_000
"""The most hits that are kept."""


class HitLog:
    """The newest hits, and the number of all hits."""

    def __init__(self) -> None:
        self._hits: deque[dict[str, Any]] = deque(maxlen=MOST_HITS)
        self.count = 0

    def add(self, rule: Rule, request: Request, wall_ms: int) -> None:
        """Add a hit of the rule on this request."""
        self.count += 1
        groups, members = request.groups, request.members
        self._hits.append(
            {
                "number": self.count,
                "rule": rule.id,
                "name": rule.name,
                "wall_ms": wall_ms,
                "node": request.node_id,
                "api": request.api,
                "version": request.version,
                "client_id": request.client_id,
                "principal": request.principal,
                "peer": request.peer,
                "group": groups[0] if groups else None,
                "member": members[0] if members else None,
                "did": rule.then.words(),
            }
        )

    def after(self, number: int = 0) -> list[dict[str, Any]]:
        """The hits with a greater number, oldest first. Raises WrongValue."""
        whole("after", number)
        return [hit for hit in self._hits if hit["number"] > number]

    def forget(self) -> None:
        """Remove all hits; the numbers continue."""
        self._hits.clear()

    @property
    def forgotten(self) -> int:
        """How many hits are no longer kept."""
        return self.count - len(self._hits)
