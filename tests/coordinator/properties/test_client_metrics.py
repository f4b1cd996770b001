"""Values of a client metrics subscription: its patterns are RE2's, and each is checked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.coordinator.api.many_rows import pattern_error
from muster.coordinator.properties.definition import InvalidProperty
from muster.coordinator.properties.resource_configs import validate_client_metrics


def validated(match: str) -> Iterator[None]:
    return validate_client_metrics("m", {"match": match}, lambda text: pattern_error(text) is None)


@pytest.mark.parametrize("pattern", ["a.*", "(a|b)+", "(?i)k{3}", "[[:alpha:]]", " client-[0-9] "])
def test_valid_match_patterns_are_accepted(pattern: str) -> None:
    list(validated(f"client_id={pattern}"))


@pytest.mark.parametrize("pattern", ["(", "(" * 5_000, "(?=a)b", "(a)\\1", "x{0,900}" * 9, "a" * 5_001])
def test_invalid_or_expensive_match_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidProperty, match="Illegal client matching pattern"):
        list(validated(f"client_id={pattern}"))


def test_match_patterns_are_checked_one_in_each_step() -> None:
    assert len(list(validated("client_id=a.*,client_software_name=b.*,client_source_port=[0-9]"))) == 3
