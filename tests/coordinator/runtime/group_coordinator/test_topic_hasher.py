"""Topics are hashed before a group needs the hashes, some in each iteration of the event loop."""

from __future__ import annotations

from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.topic_hashes import topic_hash
from muster.coordinator.runtime.group_coordinator.background_work import FEW_TOPICS, HASHED_AT_ONCE, TopicHasher
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import Job, JobQueue


def image(count: int) -> TopicsImage:
    names = [f"t{number}" for number in range(count)]
    return TopicsImage({name: TopicImage(name, name.encode().ljust(16), 2) for name in names}, 1)


def hashed(topics: TopicsImage) -> int:
    return sum(one.metadata_hash is not None for one in topics.by_name.values())


def test_many_new_topics_are_hashed_and_few_are_not() -> None:
    hasher = TopicHasher(JobQueue(ManualClock()), None)
    few, many = image(FEW_TOPICS), image(FEW_TOPICS + 1)
    hasher.topics_changed(few)
    assert hashed(few) == 0
    hasher.topics_changed(many)
    assert all(one.metadata_hash == topic_hash(one) for one in many.by_name.values())
    more = image(FEW_TOPICS + 2)
    hasher.topics_changed(more)  # one topic is left to whoever needs its hash
    assert hashed(more) == 0
    hasher.topics_changed(image(0))
    hasher.topics_changed(more)  # all topics are new
    assert hashed(more) == FEW_TOPICS + 2


class _Steps:
    """Runs the steps of a job at the test's command."""

    def run(self, job: Job[None], *_: object) -> None:
        self.job = job


def test_a_step_hashes_a_bounded_number() -> None:
    steps, many = _Steps(), image(FEW_TOPICS + 1)
    TopicHasher(steps, "rack").topics_changed(many)
    before = 0
    for _ in steps.job:
        assert hashed(many) - before <= HASHED_AT_ONCE
        before = hashed(many)
    assert hashed(many) == FEW_TOPICS + 1
    one = next(iter(many.by_name.values()))
    assert one.metadata_hash == topic_hash(one, "rack")
