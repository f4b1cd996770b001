"""Differences between what Kafka and Muster answer about transactions that docs/conformance.md accepts.

They leave the same state in both servers, so a history continues after them.
"""

from __future__ import annotations

from collections.abc import Sequence

FENCED = "A fenced producer that ends its transaction"
ABORTABLE = "A record for a partition that was not added"
PARAGRAPHS = (FENCED, ABORTABLE)
"""The paragraphs of docs/conformance.md."""


def accepted(kafka: Sequence[str], muster: Sequence[str]) -> str | None:
    """The paragraph that explains why the outcome lines of a step differ; None when none does."""
    pairs = [(one.split(), two.split()) for one, two in zip(kafka, muster, strict=False)]
    if len(kafka) != len(muster):
        return None
    for theirs, ours in pairs:
        verb, answer = ours[2], ours[3:]
        if verb == "txn-end" and answer == ["PRODUCER_FENCED"] and theirs[3] in ("ok", "INVALID_TXN_STATE"):
            return FENCED
        if verb in ("produce", "txn-commit-offsets"):
            one, other = ([word.replace("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE") for word in line]
                          for line in (theirs, ours))  # fmt: skip
            return ABORTABLE if one == other else None
    return None
