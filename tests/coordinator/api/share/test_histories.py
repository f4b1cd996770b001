"""Requests of share groups are answered as by Kafka 4.4.0, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.registry import handler
from tests.coordinator.api.harness import Answers
from tests.coordinator.api.share.histories import (
    ACKNOWLEDGE,
    BROKEN,
    DISCONNECT,
    PRODUCE,
    Step,
    answer_of,
    difference,
    recorded,
    records,
    request,
)
from tests.coordinator.api.share.serving import GROUP, Serving
from tests.coordinator.topics.support import add_topic, produce

HISTORIES = recorded()
SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79


def played(history: dict[str, Any]) -> list[dict[str, Any] | None]:
    """What a node answers to the requests of a history."""
    serving = Serving(history["configs"], group_share_min_record_lock_duration_ms="15000")
    add_topic(serving.node.topics, "t", history["partitions"])
    serving.fetch("warm", 0, *[("t", number) for number in range(history["partitions"])])
    return [_done(serving, step) for step in history["steps"]]


def _done(serving: Serving, step: Step) -> dict[str, Any] | None:
    if step["do"] == PRODUCE:
        partition = serving.node.topics.open.partition("t", step["partition"])
        assert partition is not None
        produce(partition, records(step["count"]), serving.clock.now())
        return None
    if step["do"] == DISCONNECT:
        if step["member"] in serving.channels:
            serving.disconnect(step["member"])
        return None
    if step["answer"]["error"] == BROKEN:
        return None
    key = SHARE_ACKNOWLEDGE if step["do"] == ACKNOWLEDGE else SHARE_FETCH
    answers = Answers()
    context = serving.context(step["member"], key, step["version"])
    handler(key)(serving.node, context, request(step, GROUP, serving.id_of("t")), answers)
    serving.clock.advance(0)
    if not answers.all:
        serving.clock.advance(step["fields"]["max_wait_ms"])
    answer = answer_of(answers.one())
    if key == SHARE_ACKNOWLEDGE and step["version"] == 1:
        answer["lock"] = 0  # the answer of this version does not have the field
    return answer


@pytest.mark.parametrize("number", range(len(HISTORIES)))
def test_the_answers_are_kafkas(number: int) -> None:
    history = HISTORIES[number]
    assert difference(history["steps"], played(history)) is None
