"""Places on the page that a link can name."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from muster.pipeline.report import markup
from tests.pipeline.report.made import rebalance


def test_anchors_are_readable() -> None:
    assert markup.group_anchor("payments.v2_eu-1") == "group-payments.v2_eu-1"
    assert re.fullmatch(r"group-orders_eu-[0-9a-f]{8}", markup.group_anchor("orders/eu"))
    assert re.fullmatch(r"group-_-[0-9a-f]{8}", markup.group_anchor("žluť ✓"[5:]))
    assert markup.rebalance_anchor(rebalance(3, 9, None)) == "rebalance-payments-3-20250616T000640"
    assert (
        markup.rebalance_anchor(rebalance(3, 9, None) | {"end_ms": None, "generation": None})
        == "rebalance-payments-none"
    )


@given(st.lists(st.text(max_size=80) | st.from_regex(r"\A[a-z/ ]{1,4}(-[0-9a-f]{8})?\Z"), unique=True, max_size=8))
def test_anchors_of_groups_are_unique(names: list[str]) -> None:
    places = [markup.group_anchor(name) for name in names]
    assert len(set(places)) == len(places)
    assert all(re.fullmatch(r"group-[A-Za-z0-9._-]{1,70}", place) for place in places)
