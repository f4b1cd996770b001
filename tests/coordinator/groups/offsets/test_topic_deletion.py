"""The offsets of deleted topics are removed in slices; offsets of other topics, and of new topics with the same name,
stay.
"""

from __future__ import annotations

import pytest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.image import NO_TOPICS, TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.offsets import deletion
from muster.coordinator.groups.offsets.deletion import CHUNK, REMOVE, SLICE
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tests.coordinator.groups.harness import START, TOPICS
from tests.coordinator.groups.offsets.test_txn_commit import Producers

AGAIN = TopicsImage({**TOPICS.by_name, "t": TopicImage("t", b"X" * 16, 8)}, 3)
MAX_RECORDS = (SLICE + CHUNK * (1 + REMOVE)) // (1 + REMOVE) + 1
GROUPS = 3 * MAX_RECORDS


def filled() -> Producers:
    """A core with one offset in each group, of the topic that will be deleted."""
    harness = Producers()
    for number in range(GROUPS):
        harness.commit(group=f"g{number}")
    harness.records.clear()
    return harness


def change(harness: Producers, image: TopicsImage) -> int:
    """The number of records of the command alone."""
    return len(harness.collect(harness.core.handle(TopicsChanged(image), harness.now)).records)


def record_counts(harness: Producers) -> list[int]:
    """Run the remaining pieces; return how many records each of them writes."""
    counts = []
    while harness.core.state.topic_deletion is not None:
        harness._move(harness.now.mono_ms + deletion.SLICE_AFTER_MS)
        counts.append(len(harness.collect(harness.core.advance(harness.now)).records))
    return counts


def test_offsets_of_a_deleted_topic_in_many_groups_are_deleted_in_steps() -> None:
    harness = filled()
    counts = [change(harness, NO_TOPICS), *record_counts(harness)]
    assert sum(counts) == GROUPS
    assert max(counts) <= MAX_RECORDS
    assert counts[0] > 0
    assert not dict(harness.core.state.offsets.groups())
    assert harness.only_retention_is_due()
    reported = [event.group_id for event in harness.events if event.kind == events.OFFSETS_DELETED]
    assert reported == [f"g{number}" for number in range(GROUPS)]


def test_many_offsets_of_one_group_are_deleted_in_steps() -> None:
    harness = Producers()
    value = OffsetCommitValue(7, topic_id=b"T" * 16)
    for number in range(GROUPS):
        harness.core.replay([(OffsetCommitKey("g", "t", number), value)], harness.now)
    counts = [change(harness, NO_TOPICS), *record_counts(harness)]
    assert sum(counts) == GROUPS
    assert max(counts) <= MAX_RECORDS
    reported = [event.facts["topics"]["t"] for event in harness.events if event.kind == events.OFFSETS_DELETED]
    assert [one for some in reported for one in some] == list(range(GROUPS))


def test_groups_without_offsets_of_the_deleted_topic_are_searched_in_steps() -> None:
    harness = Producers()
    for number in range(GROUPS):
        harness.commit(group=f"g{number}", topic="u")
    harness.commit(group="last")
    counts = [change(harness, TopicsImage({"u": TOPICS.by_name["u"]}, 2)), *record_counts(harness)]
    assert len(counts) > GROUPS // SLICE
    assert sum(counts) == 1
    assert len(dict(harness.core.state.offsets.groups())) == GROUPS


def test_topics_deleted_during_a_deletion_are_handled_next() -> None:
    harness = filled()
    for number in range(GROUPS):
        harness.commit(group=f"g{number}", topic="u")
    harness.commit(group="g0", topic="v")
    change(harness, TopicsImage({**TOPICS.by_name, "v": TopicImage("v", b"V" * 16, 1)}, 2))
    without_t = TopicsImage({"u": TOPICS.by_name["u"], "v": TopicImage("v", b"V" * 16, 1)}, 3)
    assert change(harness, without_t) > 0
    assert change(harness, TopicsImage({"v": TopicImage("v", b"V" * 16, 1)}, 4)) == 0
    assert change(harness, NO_TOPICS) == 0
    record_counts(harness)
    # the image did not have "v" at the time of the commit: that offset has no id, and its name decides
    assert not dict(harness.core.state.offsets.groups())


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_topic_created_again_during_the_deletion_keeps_its_new_offsets(is_committed: bool) -> None:
    harness = filled()
    change(harness, NO_TOPICS)
    assert change(harness, AGAIN) == 0
    last = f"g{GROUPS - 1}"
    assert harness.txn(offset=70, group=last) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.txn(offset=70, group="g0") == 0  # the group was checked
    harness.end(is_committed=is_committed)
    assert harness.commit(group=last, partition=1, offset=8) == 0  # the offset has the id of the new topic
    record_counts(harness)
    assert harness.fetch(group="g0").committed_offset == (70 if is_committed else -1)
    assert [harness.fetch(group=last, partition=one).committed_offset for one in (0, 1)] == [-1, 8]
    assert harness.txn(offset=71, group=last) == 0


def test_transactional_commits_to_deleted_topics_are_refused_during_the_deletion() -> None:
    harness = filled()
    change(harness, TopicsImage({"u": TOPICS.by_name["u"]}, 2))
    change(harness, NO_TOPICS)
    change(harness, AGAIN)
    assert harness.txn(offset=70, group="g0", topic="u") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.txn(offset=70, group="g0", topic="elsewhere") == 0
    record_counts(harness)
    assert harness.txn(offset=70, group="g0", topic="u") == 0


def test_a_transaction_that_ends_during_the_deletion_leaves_no_offset() -> None:
    harness = filled()
    last = f"g{GROUPS - 1}"
    for partition in range(8):
        harness.txn(partition=partition, offset=70, group=last)
    harness.txn(offset=70, group=last, topic="u")
    change(harness, NO_TOPICS)
    harness.end(is_committed=True)
    record_counts(harness)
    assert not dict(harness.core.state.offsets.groups())
    assert not harness.core.state.offsets.pending.transactions_of


def test_pending_offsets_of_deleted_topics_are_deleted_in_steps() -> None:
    harness = Producers()
    for number in range(GROUPS):
        harness.txn(partition=number % 8, offset=70, group=f"g{number}")
    for number in range(2 * CHUNK):
        harness.txn(offset=70, group="many", topic=f"t{number}")
    topics = {f"t{number}": TopicImage(f"t{number}", b"%016d" % number, 1) for number in range(2 * CHUNK)}
    harness.core.state.image = TopicsImage({**TOPICS.by_name, **topics}, 2)
    counts = [change(harness, NO_TOPICS), *record_counts(harness)]
    assert sum(counts) == GROUPS + 2 * CHUNK
    assert max(counts) <= MAX_RECORDS
    assert not harness.core.state.offsets.pending.transactions_of


def test_a_loaded_core_deletes_offsets_of_deleted_topics_in_steps() -> None:
    image = TopicsImage({}, 3, {b"D" * 16: "t"})
    core = GroupCore(GroupSettings(), image)
    value = OffsetCommitValue(5, topic_id=b"D" * 16)
    core.replay([(OffsetCommitKey(f"g{number}", "t", 0), value) for number in range(GROUPS)], START)
    assert 0 < len(core.loaded(START).records) <= MAX_RECORDS
    assert core.state.topic_deletion is not None
    due_ms = core.next_deadline_ms()
    assert due_ms == START.mono_ms + deletion.SLICE_AFTER_MS
