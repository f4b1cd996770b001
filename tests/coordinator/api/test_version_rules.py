"""What the version of a request means."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.coordinator.api import version_rules


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        (version_rules.api_versions_names_software, 3),
        (version_rules.api_versions_shows_features_from_zero, 4),
        (version_rules.describe_knows_group_not_found, 6),
        (version_rules.fetch_by_topic_id, 13),
        (version_rules.join_requires_known_member_id, 4),
        (version_rules.join_supports_skip_assignment, 9),
        (version_rules.offsets_by_topic_id, 10),
        (version_rules.produce_allows_zstd, 7),
        (version_rules.produce_by_topic_id, 13),
        (version_rules.sync_names_protocol, 5),
    ],
)
def test_each_version_rule_begins_with_its_version(rule: Callable[[int], bool], first: int) -> None:
    assert not rule(first - 1)
    assert rule(first)


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_each_special_timestamp_is_known_from_its_version_on(timestamp: int, first: int) -> None:
    assert not version_rules.knows_timestamp(first - 1, timestamp)
    assert version_rules.knows_timestamp(first, timestamp)


@pytest.mark.parametrize("timestamp", [0, 5, -1, -2])
def test_ordinary_timestamps_are_known_in_every_version(timestamp: int) -> None:
    assert version_rules.knows_timestamp(1, timestamp)
