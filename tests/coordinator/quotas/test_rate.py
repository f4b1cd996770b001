"""The calculation of rates and credits, compared with figures of Kafka's own classes for the same uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.coordinator.quotas.managers import Rate, TokenBucket, Windows

JAVAS = json.loads(Path(__file__).with_name("java-rates.json").read_text())


@pytest.mark.parametrize("case", JAVAS["rates"], ids=lambda case: case["name"])
def test_rates_equal_those_of_kafkas_classes(case: dict[str, object]) -> None:
    number, size_ms, bound, uses, expected = (case[key] for key in ("number", "size_ms", "bound", "uses", "expected"))
    rate: Rate | None = None
    found = []
    for now_ms, value in uses:
        rate = rate or Rate(Windows(number, size_ms), now_ms)
        rate.record(value, now_ms)
        found.append(rate.excess_ms(bound, now_ms))
    assert found == expected


@pytest.mark.parametrize("case", JAVAS["buckets"], ids=lambda case: case["name"])
def test_token_buckets_equal_those_of_kafkas_classes(case: dict[str, object]) -> None:
    number, size_ms, bound, uses, expected = (case[key] for key in ("number", "size_ms", "bound", "uses", "expected"))
    bucket: TokenBucket | None = None
    found = []
    for now_ms, value in uses:
        bucket = bucket or TokenBucket(Windows(number, size_ms), now_ms)
        bucket.record(value, bound, now_ms)
        found.append(bucket.excess_ms(bound, now_ms))
    assert found == expected


def test_a_withdrawn_use_leaves_no_excess() -> None:
    rate = Rate(Windows(11, 1000), 0)
    rate.record(5000.0, 0)
    rate.record(-5000.0, 0)
    assert rate.excess_ms(1.0, 0) == 0


def test_the_longest_throttle_time_fits_into_an_answer() -> None:
    rate = Rate(Windows(2, 1000), 0)
    rate.record(1e18, 0)
    assert rate.excess_ms(1e-3, 0) == 2**31 - 1
