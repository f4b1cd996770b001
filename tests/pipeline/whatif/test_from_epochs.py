"""Histories of KIP-848 groups from their records, replayed as they were, and as classic groups. The groups are real
ones: members in virtual time on a core, which send each of their heartbeats.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from muster.coordinator.groups.common.image import TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.state_machine.interface import Client, Record
from muster.coordinator.state_machine.output import Output
from muster.pipeline.defaults import EPOCH_SESSION_MS
from muster.pipeline.infer.epoch_image import TARGET_EPOCH
from muster.pipeline.tables.epoch_states import rows_of_group
from muster.pipeline.whatif import from_epochs
from muster.pipeline.whatif.advice import advice
from muster.pipeline.whatif.compare import Comparison, compare
from muster.pipeline.whatif.history import History
from muster.pipeline.whatif.processes import add_last_commits, polled_too_late
from muster.pipeline.whatif.settings import DEFAULT_GRID, parse
from muster.protocol.as_json import as_json
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from muster.protocol.records import OFFSETS
from tests.pipeline.whatif.virtual import Virtual

GROUP = "g"
EVERY_MS = 5_000
REVOKING_MS = 100


class World(Virtual):
    """One group, its coordinator and a topic. `rows` is the content of the decoded log."""

    def __init__(self, seed: int = 0, partitions: int = 8) -> None:
        self.partitions = partitions
        super().__init__(seed, GroupSettings(), self._image())
        self.rows: list[dict[str, Any]] = []
        self.died: dict[tuple[str, int], int] = {}

    def grow(self, partitions: int) -> None:
        self.partitions = partitions
        self._settle(self.core.handle(TopicsChanged(self._image()), self.now))

    def send(self, request: Any, client: Client, take: Callable[[Any], object]) -> None:
        self._settle(self.core.handle(ConsumerHeartbeatCommand(request, take, client), self.now))

    def _settle(self, output: Output) -> None:
        for event in output.events:
            if event.kind == "member_expired":
                self.died[event.facts["member"].member, self.ms] = self.ms - EPOCH_SESSION_MS
        self.rows += [self._row(one, at) for at, one in enumerate(output.records, len(self.rows))]
        for respond, response in output.replies:
            respond(response)

    def _row(self, record: Record, offset: int) -> dict[str, Any]:
        value = None if record.value is None else json.dumps(as_json(record.value, record.value_version))
        return {
            "log_partition": 0, "log_offset": offset, "log_timestamp_ms": self.ms,
            "key_type": int.from_bytes(OFFSETS.encode_key(record.key)[:2], "big"),
            "key_json": json.dumps(as_json(record.key, 0)), "value_json": value,
        }  # fmt: skip

    def _image(self) -> TopicsImage:
        return TopicsImage({"t": TopicImage("t", b"t" * 16, self.partitions)}, self.partitions)

    def compared(self, *settings: str) -> Comparison:
        return compare(self.history(), [one for text in settings for one in parse(text)])

    def history(self) -> History:
        epochs = [json.loads(json.dumps(row)) for row in rows_of_group(GROUP, self.rows, {})]
        epochs = [row for row in epochs if row.get("is_tombstone") is not None]
        targets = [
            row["log_timestamp_ms"] for row in self.rows if row["key_type"] == TARGET_EPOCH and row["value_json"]
        ]
        return from_epochs.history_of(GROUP, epochs, self.died, self.ms, targets)


class Consumer:
    """A client that acts as real ones: it sends heartbeats, gives partitions up, and reports that."""

    def __init__(self, world: World, name: str, instance: str | None = None, assignor: str | None = None) -> None:
        self.world, self.name, self.instance, self.assignor = world, name, instance, assignor
        self.client = Client(name, f"/{name}")
        self.lives = 0
        self.turn = 0
        self.is_gone = True

    def start(self) -> None:
        self.lives += 1
        self.member_id = f"{self.name}-{self.lives}"
        self.go_on()

    def go_on(self) -> None:
        """Continue as the same process, under its id."""
        self.is_gone = False
        self._join()

    def stop(self, epoch: int = -1) -> None:
        self.turn += 1
        self.is_gone = True
        request = ConsumerGroupHeartbeatRequest(GROUP, self.member_id, epoch, self.instance)
        self.world.send(request, self.client, _nothing)

    def crash(self) -> None:
        self.turn += 1
        self.is_gone = True

    def _join(self) -> None:
        self.owned: set[int] = set()
        self._beat(0)

    def _beat(self, epoch: int, *, reported: bool = True) -> None:
        self.turn += 1
        first = epoch == 0
        rows = [ConsumerGroupHeartbeatRequestTopicPartitions(b"t" * 16, sorted(self.owned))] if self.owned else []
        request = ConsumerGroupHeartbeatRequest(
            GROUP, self.member_id, epoch, self.instance, None, 60_000 if first else -1, ["t"] if first else None,
            None, self.assignor if first else None, rows if reported else None,
        )  # fmt: skip
        self.world.send(request, self.client, self._answered)

    def _answered(self, response: Any) -> None:
        if self.is_gone:
            return
        if response.error_code:
            self._later(1, self._join)
            return
        epoch = response.member_epoch
        if response.assignment is not None:
            given = {one for row in response.assignment.topic_partitions for one in row.partitions}
            lost = self.owned - given
            self.owned = self.owned & given if lost else given
            if lost:
                self._later(REVOKING_MS, lambda: self._beat(epoch))
                return
        self._later(EVERY_MS, lambda: self._beat(epoch, reported=False))

    def _later(self, ms: int, act: Callable[[], object]) -> None:
        turn = self.turn
        self.world.at(ms, lambda: act() if turn == self.turn and not self.is_gone else None)


def _nothing(_: object) -> None:
    """Ignore an answer."""


def running(
    *names: str, static: bool = False, assignor: str | None = None, partitions: int = 8
) -> tuple[World, dict[str, Consumer]]:
    world = World(partitions=partitions)
    members = {name: Consumer(world, name, f"i-{name}" if static else None, assignor) for name in names}
    for member in members.values():
        member.start()
        world.run(2_000)
    world.run(60_000)
    return world, members


def faithful(world: World, *settings: str) -> Comparison:
    found = world.compared("static=false", *settings)
    assert not found.fidelity.withheld, found.fidelity
    assert found.fidelity.share == 1.0
    return found


def close(one: int, other: int, ms: int) -> bool:
    return abs(one - other) <= ms


def test_a_replay_of_epochs_gives_the_real_history() -> None:
    world, members = running("a", "b", "c")
    members["b"].stop()
    world.run(60_000)
    found = faithful(world)
    (played,) = found.whatif
    assert played.figures is not None
    assert played.figures.rebalances == found.actual.rebalances == 4
    assert played.figures.moved_partitions == found.actual.moved_partitions
    # heartbeats come at another point of their interval
    assert close(played.figures.paused_partition_ms, found.actual.paused_partition_ms, 8 * EVERY_MS)
    assert found.actual.paused_partition_ms > 0


def test_a_consumer_group_replayed_as_classic_would_have_stopped() -> None:
    world, members = running("a", "b", "c")
    members["b"].stop()
    world.run(5_000)
    members["b"].start()
    world.run(60_000)
    found = faithful(world, "classic", "classic,assignor=cooperative-sticky", "assignor=sticky")
    stopped, cooperative, sticky = (one.figures for one in found.whatif[1:])
    assert stopped is not None
    assert cooperative is not None
    assert sticky is not None
    assert stopped.paused_partition_ms > found.actual.paused_partition_ms
    assert cooperative.paused_partition_ms < stopped.paused_partition_ms
    # a strategy that no server has means the classic protocol
    assert sticky.paused_partition_ms > found.actual.paused_partition_ms


def test_a_death_and_a_static_member_are_replayed() -> None:
    world, members = running("a", "b", "c")
    members["c"].crash()
    world.run(120_000)
    found = faithful(world, "session.timeout.ms=10000")
    assert found.actual.detect_ms == pytest.approx(45_000, abs=10)
    quick = found.whatif[1].figures
    assert quick is not None
    assert quick.detect_ms == pytest.approx(10_000, abs=10)
    assert quick.silent_partition_ms < found.actual.silent_partition_ms

    world, members = running("a", "b", "c", static=True)
    members["c"].stop(-2)
    world.run(3_000)
    members["c"].start()
    world.run(60_000)
    found = faithful(world)
    assert found.actual.rebalances == 3


def test_a_growing_topic_and_an_emptied_group_are_replayed() -> None:
    world, members = running("a", "b")
    world.grow(12)
    world.run(30_000)
    for member in members.values():
        member.stop()
    world.run(30_000)
    members["a"].start()
    world.run(30_000)
    found = faithful(world)
    (played,) = found.whatif
    assert played.figures is not None
    # one returned to the empty group: it was being restarted
    assert found.actual.silent_partition_ms == played.figures.silent_partition_ms == 12 * 30_000


def test_members_that_ask_the_server_for_a_strategy_get_it() -> None:
    world, members = running("a", "b", "c", assignor="range", partitions=7)
    members["b"].stop()
    world.run(30_000)
    members["b"].start()
    world.run(60_000)
    assert world.history().assignor == "range"
    faithful(world, "assignor=uniform")


def test_another_default_assignor_of_the_server_is_recognized() -> None:
    world, members = running("a", "b", "c", assignor="range", partitions=7)
    members["b"].stop()
    world.run(30_000)
    members["b"].start()
    world.run(60_000)
    history = world.history()
    history.assignor = None
    found = compare(history, parse("static=false"))
    assert found.fidelity.share == 1.0
    assert history.assignor == "range"


def test_a_slow_poller_of_a_consumer_group_is_advised_more_time() -> None:
    world, members = running("a", "b", "c")
    heard = []
    for _ in range(3):
        heard.append(world.ms)
        world.run(60_000)
        members["b"].stop()
        world.run(20_000)
        members["b"].go_on()
        world.run(60_000)
    history = world.history()
    assert [one.member_id for one in history.stays].count("b-1") == 4
    add_last_commits(history, {"b-1": heard})
    assert [polled_too_late(one) for one in history.stays if one.end is not None] == [True] * 3
    found = compare(history, DEFAULT_GRID)
    assert found.fidelity.share == 1.0
    got = advice(history, found)
    assert got is not None
    assert got.sentence.startswith("max.poll.interval.ms=300000 would have spared 6 of 9 rebalances")


def test_the_session_timeout_is_learned_from_dead_members() -> None:
    world, members = running("a", "b", "c")
    members["b"].crash()
    world.run(60_000)
    (place,) = world.died
    world.died[place] = place[1] - 9_990
    history = world.history()
    assert history.session_ms == 10_000
    assert {one.session_timeout_ms for one in history.stays} == {10_000}
    assert [one.heard_ms for one in history.stays if one.end is not None] == [place[1] - 9_990]


def test_a_partial_log_of_epochs_is_replayed() -> None:
    world, members = running("a", "b", "c")
    known = len(world.rows)
    members["a"].stop()
    world.run(60_000)
    # compacted: the newest record of each key before that time
    newest = {(row["key_type"], row["key_json"]): row for row in world.rows[:known]}
    world.rows = sorted(newest.values(), key=lambda row: row["log_offset"]) + world.rows[known:]
    found = faithful(world, "classic")
    assert found.whatif[1].figures is not None


def random_world(seed: int) -> World:
    """Members that join, leave, die, and return; a topic that grows."""
    world = World(seed, partitions=7)
    draw = world.random
    members = [Consumer(world, f"c{number}", f"i{number}" if number < 1 else None) for number in range(4)]
    for _ in range(14):
        one = draw.choice(members)
        if one.is_gone:
            one.start()
        else:
            how = draw.randrange(10)
            if how < 6:
                one.stop(-2 if one.instance else -1)
            elif how < 8 and one.instance is None:
                one.crash()
            else:
                world.grow(world.partitions + 1)
        world.run(draw.choice((300, 7_000, 20_000, 70_000)))
    world.run(120_000)
    return world


@pytest.mark.parametrize("seed", range(6))
def test_every_setting_can_be_played_on_anything(seed: int) -> None:
    found = random_world(seed).compared(json.dumps([json.loads(one.to_json()) for one in DEFAULT_GRID]))
    if not found.fidelity.withheld:
        assert [one.why for one in found.whatif] == [None] * len(DEFAULT_GRID)


def test_nearly_all_random_histories_are_reproduced() -> None:
    generations = reproduced = 0
    for seed in range(20):
        found = random_world(seed).compared().fidelity
        generations, reproduced = generations + found.generations, reproduced + found.reproduced
    assert generations > 100
    assert reproduced > 0.9 * generations
