"""Groups or transactional ids on partitions that are not theirs are reported, in one line."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from muster.coordinator.runtime import routing
from muster.protocol.hashing import group_partition, partitions_of


def placed(partitions: int, groups: int = 30) -> list[list[str]]:
    """Group ids, by the partition that they are on."""
    found: list[list[str]] = [[] for _ in range(partitions)]
    for number in range(groups):
        found[group_partition(f"g{number}", partitions)].append(f"g{number}")
    return found


def check(names: list[list[str]]) -> None:
    routing.check_placement(
        names, "groups", "__consumer_offsets", "offsets.topic.num.partitions", "they cannot be found"
    )


@pytest.mark.parametrize("partitions", [1, 3, 50])
def test_groups_on_their_own_partitions_are_not_reported(partitions: int) -> None:
    with capture_logs() as logged:
        check(placed(partitions))
        check([[]] * partitions)
    assert logged == []


def test_groups_written_with_another_partition_count_are_reported() -> None:
    with capture_logs() as logged:
        check(placed(3) + [[]] * 47)
    (line,) = logged
    assert (line["looked_at"], line["partitions"], line["written_with"]) == (30, 50, 3)
    assert 25 <= line["misplaced"] <= 30
    assert "offsets.topic.num.partitions=3" in line["what_to_do"]


def test_groups_of_several_clusters_are_reported() -> None:
    mixed = [[*three, *seven] for three, seven in zip(placed(3), placed(7)[:3], strict=True)]
    with capture_logs() as logged:
        check([*mixed, *placed(7)[3:]])
    assert logged[0]["written_with"] == "different numbers of partitions"
    assert "of one cluster only" in logged[0]["what_to_do"]


def test_too_few_groups_give_no_partition_count() -> None:
    assert partitions_of([]) is None
    assert partitions_of([("a", group_partition("a", 7)), ("b", group_partition("b", 7))]) is None
