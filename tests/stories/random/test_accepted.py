from __future__ import annotations

import re
from pathlib import Path

from tests.stories.random.accepted import ABORTABLE, FENCED, PARAGRAPHS, accepted

CONFORMANCE = Path(__file__).parents[3] / "docs" / "conformance.md"


def lines(text: str) -> list[str]:
    return [f"    P <- {text}"]


def test_each_accepted_difference_is_a_paragraph_of_the_conformance_page() -> None:
    text = re.sub(r"\s+", " ", CONFORMANCE.read_text(encoding="utf-8"))
    for paragraph in PARAGRAPHS:
        assert f"**{paragraph}" in text


def test_only_documented_differences_are_accepted() -> None:
    assert accepted(lines("txn-end ok epoch=2"), lines("txn-end PRODUCER_FENCED")) == FENCED
    assert accepted(lines("txn-end INVALID_TXN_STATE"), lines("txn-end PRODUCER_FENCED")) == FENCED
    assert accepted(lines("txn-end PRODUCER_FENCED"), lines("txn-end ok")) is None
    one, other = "o/0=TRANSACTION_ABORTABLE o/1=ok@3", "o/0=INVALID_TXN_STATE o/1=ok@3"
    assert accepted(lines(f"produce {one}"), lines(f"produce {other}")) == ABORTABLE
    assert accepted(lines(f"produce {one}"), lines("produce o/0=INVALID_TXN_STATE o/1=ok@4")) is None
    assert accepted(lines(f"produce {other}"), lines(f"produce {one}")) == ABORTABLE
    assert accepted(lines(f"txn-add-partitions {other}"), lines(f"txn-add-partitions {one}")) is None
    assert accepted(lines("txn-init ok"), []) is None
