"""What depends on the version of a request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.coordinator.api import context


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        (context.api_versions_names_software, 3),
        (context.api_versions_shows_features_from_zero, 4),
        (context.describe_knows_group_not_found, 6),
        (context.fetch_by_topic_id, 13),
        (context.join_requires_known_member_id, 4),
        (context.join_supports_skip_assignment, 9),
        (context.offsets_by_topic_id, 10),
        (context.produce_allows_zstd, 7),
        (context.produce_by_topic_id, 13),
        (context.sync_names_protocol, 5),
    ],
)
def test_each_version_rule_begins_with_its_version(rule: Callable[[int], bool], first: int) -> None:
    assert not rule(first - 1)
    assert rule(first)


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_each_special_timestamp_is_known_from_its_version_on(timestamp: int, first: int) -> None:
    assert not context.knows_timestamp(first - 1, timestamp)
    assert context.knows_timestamp(first, timestamp)


@pytest.mark.parametrize("timestamp", [0, 5, -1, -2])
def test_ordinary_timestamps_are_known_in_every_version(timestamp: int) -> None:
    assert context.knows_timestamp(1, timestamp)
