"""One group of a sample: its processes, its script, and, for the truth, what the script means to happen."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from random import Random
from typing import Any, Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.coordinator.state_machine.interface import Client
from muster.protocol.errors import error_name
from muster.protocol.message import Message
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.simulation.consumer import Offsets, fetch_of, offsets_of, rows_of
from muster.simulation.sample.consumer import GONE, STABLE, Plan, SampleConsumer
from muster.simulation.sample.truth import Truth
from muster.simulation.sample.work import BEHIND_MS
from muster.simulation.sample.world import World

SETTLED: Final = "settled"
"""A script yields this to wait until the expected events have happened and all consumers are stable."""
REST_MS: Final = 2_000
"""The pause of a script after a wait for SETTLED."""
KEEP_ALIVE: Final = 0.7
"""A process sends a heartbeat after at most this share of its session timeout."""
ADMIN: Final = Client("admin", "/10.255.0.1")

Script = Generator[Any, None, None]
"""The script of what happens to a group. It yields ms to wait, or SETTLED."""
Made = Callable[["Group", int, str | None], SampleConsumer]


class _Expected(NamedTuple):
    cause: str
    trigger: Mapping[str, str | None] | None
    acted_ms: int


class Group:
    """A group of the sample."""

    def __init__(
        self, plan: Plan, world: World, truth: Truth, seed: int, end_ms: int, made: Made = SampleConsumer
    ) -> None:
        """`end_ms`: the wall time at which the sample ends. `made`: the class of the group's processes."""
        self.plan = plan
        self.group_id = plan.group_id
        self.world, self.truth = world, truth
        self.random = Random(f"{seed}:{plan.group_id}")
        self.consumers: list[SampleConsumer] = []
        self.generation = 0
        """The last generation in which all members had settled."""
        self._end_ms = end_ms
        self._made = made
        self._script: Script | None = None
        self._awaited = False
        self._expected: list[_Expected] = []
        truth.write(
            "group", group=plan.group_id, story=plan.story, about=plan.about, topics=plan.topics,
            protocol=plan.strategy, session_timeout_ms=plan.session_timeout_ms,
            commit_interval_ms=plan.commit_interval_ms,
        )  # fmt: skip
        world.when_rebalancing(plan.group_id, self.rebalance_began)

    # ---- the script

    def run(self, script: Script) -> None:
        self._script = script
        self.world.later(self.random.randrange(60_000), self._go_on)
        self.world.later(int(self.plan.session_timeout_ms * KEEP_ALIVE), self._keep_alive)

    def _go_on(self, _: None = None) -> None:
        assert self._script is not None
        what = next(self._script, None)
        if what == SETTLED:
            self._awaited = True
            self.check_rebalance()
        elif what is not None:
            self.world.later(what, self._go_on)

    def part_ms(self, share: float) -> int:
        """A length of about this share of the sample's time."""
        span_ms = self._end_ms - self.world.start_ms
        return int(span_ms * share * self.random.uniform(0.9, 1.1))

    def some_ms(self, low_s: int, high_s: int) -> int:
        """A random time between two limits in seconds."""
        return self.random.randrange(low_s * 1000, high_s * 1000)

    @property
    def left_ms(self) -> int:
        return self._end_ms - self.world.wall_ms

    # ---- processes

    def add(self, *, is_static: bool = False) -> SampleConsumer:
        number = len(self.consumers) + 1
        consumer = self._made(self, number, f"{self.group_id}-{number}" if is_static else None)
        self.consumers.append(consumer)
        return consumer

    def form(self, *, is_static: bool = False) -> Script:
        """Start the group's first processes within a second, and wait for the first generation."""
        for _ in range(self.plan.members):
            self.add(is_static=is_static)
        yield from self.gather(self.consumers)

    def gather(self, consumers: list[SampleConsumer]) -> Script:
        """Start the processes of an empty group, the first one first, and wait for a generation."""
        self.join(consumers[0])
        for consumer in consumers[1:]:
            yield self.random.randrange(100, 300)
            consumer.launch()
        yield SETTLED

    def join(self, consumer: SampleConsumer) -> None:
        self.expect(events.NEW_MEMBER, consumer)
        self.act("start", consumer)
        consumer.launch()

    def leave(self, consumer: SampleConsumer, why: str = "") -> None:
        self.expect(events.LEFT, consumer)
        self.act("stop", consumer, why)
        consumer.stop()

    @property
    def living(self) -> list[SampleConsumer]:
        return [one for one in self.consumers if one.state != GONE and not one.paused]

    def owners(self) -> list[SampleConsumer]:
        return [one for one in self.living if one.owned]

    @property
    def leader_id(self) -> str:
        """The member id of the leader, as the members know it."""
        return next((one.leader_id for one in self.living), "")

    def leader(self) -> SampleConsumer:
        return next(one for one in self.living if one.member_id == self.leader_id)

    # ---- the truth

    def act(self, what: str, consumer: SampleConsumer | None = None, why: str = "") -> None:
        who = None if consumer is None else consumer.who()
        self.truth.write("action", group=self.group_id, time=self.world.wall_ms, what=what, who=who, why=why)

    def expect(self, cause: str, trigger: SampleConsumer | None) -> None:
        """Expect that the next action makes the group rebalance, for this cause."""
        who = None if trigger is None else trigger.who()
        self._expected.append(_Expected(cause, who, self.world.wall_ms))

    def expect_another(self, consumer: SampleConsumer) -> None:
        """Expect a second round.

        A cooperative consumer gives partitions up and joins again, and the first one starts the round.
        """
        if self.generation + len(self._expected) == consumer.generation:
            self.expect(events.METADATA_CHANGED, consumer)

    def write_truth(self, kind: str, **facts: object) -> None:
        """Write a line about this group to the truth."""
        self.truth.write(kind, group=self.group_id, time=self.world.wall_ms, **facts)

    def refused(self, consumer: SampleConsumer, error: int) -> None:
        self.write_truth("refused", client_id=consumer.client.client_id, error=error_name(error))

    def check_rebalance(self, _: None = None) -> None:
        """Check whether the expected rebalance has happened."""
        living, due = self.living, self.generation + len(self._expected)
        generation = due
        if living:
            generation = living[0].generation
            if any(one.state != STABLE or one.generation != generation for one in living) or generation < due:
                return
        if due > self.generation or generation > due:
            self._settle(generation)
        if self._awaited:
            self._awaited = False
            self.world.later(REST_MS + self.random.randrange(1_000), self._go_on)

    def _settle(self, generation: int) -> None:
        expected, self._expected = self._expected, []
        number = self.generation
        owners = {one.name: {topic: list(rows) for topic, rows in one.owned.items()} for one in self.living}
        for one in expected:
            number += 1
            self.truth.write(
                "rebalance", group=self.group_id, generation=number, cause=one.cause, trigger=one.trigger,
                acted=one.acted_ms, settled=self.world.wall_ms,
                owners=owners if one is expected[-1] else None,
            )  # fmt: skip
        for unplanned in range(number + 1, generation + 1):
            self.truth.write("unplanned", group=self.group_id, generation=unplanned)
        self.generation = generation

    def finish(self) -> None:
        for one in self._expected:
            self.truth.write(
                "unfinished", group=self.group_id, cause=one.cause, trigger=one.trigger, acted=one.acted_ms
            )

    # ---- heartbeats

    def rebalance_began(self) -> None:
        """Let the members see the rebalance with their next heartbeats."""
        for consumer in self.living:
            if consumer.state == STABLE:
                consumer.expect_beat()

    def _keep_alive(self, _: None = None) -> None:
        self.world.later(int(self.plan.session_timeout_ms * KEEP_ALIVE), self._keep_alive)
        for consumer in self.consumers:
            consumer.beat()

    # ---- actions of administrators

    def ask(self, request: Message) -> None:
        self.world.ask(self.group_id, request, ADMIN)

    def committed(self) -> Offsets:
        return offsets_of(self.world.ask(self.group_id, fetch_of(self.group_id, None), ADMIN))

    def ends(self) -> Offsets:
        """The end offsets of the group's topics, as they were a moment ago."""
        world = self.world
        return {
            topic: {one: world.traffic[topic].end(one, world.wall_ms - BEHIND_MS) for one in range(count)}
            for topic, count in world.partition_counts(self.plan.topics).items()
        }

    def commit_from_outside(self, offsets: Offsets, client: Client = ADMIN, retention_ms: int = -1) -> None:
        """Commit without a generation, as a tool does, or a consumer that assigns its partitions itself.

        `retention_ms`: how long the offsets are to be kept, which old clients can request. -1 means the server's
        setting.
        """
        request = OffsetCommitRequest(self.group_id, -1, "", None, retention_ms, rows_of(offsets))
        self.world.ask(self.group_id, request, client)
        self.world.records += sum(map(len, offsets.values()))
