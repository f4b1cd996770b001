"""Members of streams groups, as correct clients are. A member gives up tasks before it reports that, and then takes its
new tasks. Some members of a group are threads of one process.
"""

from __future__ import annotations

from typing import Any

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    TaskOffset,
)
from muster.simulation.actor import Actor, Script
from tests.coordinator.groups.streams.topologies import sent
from tests.simulation.consumers.clients import NOT_READY, RETRY_MS
from tests.simulation.streams.scenario import BEAT_MS, PROCESSES, REBALANCES_MS, SESSION_MS

Task = tuple[str, int]
"""Subtopology and partition."""
Tasks = frozenset[Task]
NONE: Tasks = frozenset()
END = 1_000
"""The sum of the end offsets of each changelog."""


class Member(Actor):
    """A member of a streams group. `instance` makes it a static member. `owned`: its active tasks."""

    def __init__(self, world: Any, name: str, group_id: str, instance: str | None) -> None:
        super().__init__(world, name)
        random = world.random
        self.group_id, self.instance = group_id, instance
        self.member_id, self.epoch = f"{name}-{int(random() * 10**9):09}", 0
        self.process = name if random() < 0.6 else f"p{int(random() * PROCESSES)}"
        self.rebalance_ms = REBALANCES_MS[int(random() * len(REBALANCES_MS))]
        self.careless = random() < 0.25
        self.latency_ms = 3 if random() < 0.9 else 3_000
        self.owned = self.standby = self.warmup = NONE
        self.must_say_tasks = True

    def live(self) -> Script:
        """Send heartbeats and follow the target, for ever."""
        while True:
            response = yield self.heartbeat()
            if response is None:
                self.must_say_tasks = True  # nobody knows whether the coordinator got it
                continue
            error = response.error_code
            if not error:
                yield from self.follow(response)
            elif error in NOT_READY:
                self.must_say_tasks = True
                yield RETRY_MS
            elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                self.rejoin()
                yield RETRY_MS
            elif error == ErrorCode.UNRELEASED_INSTANCE_ID or (error == ErrorCode.GROUP_ID_NOT_FOUND and self.epoch):
                self.rejoin()
                yield 1_000
            elif error == ErrorCode.GROUP_MAX_SIZE_REACHED and self.world.calm:
                yield 1_000  # members that are dead may still be in the group
            else:
                self.owned = NONE
                return  # fenced by its successor, or refused

    def rejoin(self) -> None:
        """Begin again: it is no member any more, owns nothing, and sends all fields."""
        self.owned = self.standby = self.warmup = NONE
        self.epoch, self.must_say_tasks = 0, True

    def follow(self, response: Any) -> Script:
        """Take the tasks of the answer, after the client has given up the rest."""
        world = self.world
        self._note_epoch(response.member_epoch)
        goal = self._goal(response)
        while goal is not None:
            taken, goal = goal, None
            if self.owned - taken[0]:
                end_ms = world.ms + self._slowness()
                while world.ms < end_ms:  # it sends heartbeats while its tasks are closed
                    yield min(BEAT_MS, end_ms - world.ms)
                    if world.ms < end_ms:
                        again = yield self.heartbeat()
                        if again is not None and again.error_code and again.error_code not in NOT_READY:
                            self.rejoin()
                            return
                        if again is not None and not again.error_code:
                            self._note_epoch(again.member_epoch)
                            goal = self._goal(again) or goal
            if (self.owned, self.standby, self.warmup) != taken:
                self.owned, self.standby, self.warmup = taken
                self.must_say_tasks = True
                if goal is None:
                    return
        yield from self.work()

    def _note_epoch(self, epoch: int) -> None:
        if self.epoch and epoch < self.epoch:
            self.world.watch.fail(self.group_id, f"{self.name} got epoch {epoch} after {self.epoch}")
        self.epoch = epoch

    def _slowness(self) -> int:
        world = self.world
        if self.careless and not world.calm and world.random() < 0.2:
            return int(world.random() * 2 * self.rebalance_ms)
        return 1 + int(world.random() * 300)

    def _goal(self, response: Any) -> tuple[Tasks, Tasks, Tasks] | None:
        if response.active_tasks is None:
            return None
        kinds = (response.active_tasks, response.standby_tasks, response.warmup_tasks)
        active, standby, warmup = (
            frozenset((row.subtopology_id, number) for row in rows for number in row.partitions) for rows in kinds
        )
        return active, standby, warmup

    def work(self) -> Script:
        """Work between two heartbeats."""
        world, random = self.world, self.world.random
        if self.careless and not world.calm and random() < 0.03:
            yield int(2 * SESSION_MS * random())
        yield int(BEAT_MS * (0.7 + 0.5 * random()))

    def heartbeat(self) -> StreamsGroupHeartbeatRequest:
        """The next heartbeat. The first has all fields, and some others have the tasks."""
        random = self.world.random
        is_first = not self.epoch
        says_tasks = is_first or self.must_say_tasks or random() < 0.1
        request = StreamsGroupHeartbeatRequest(self.group_id, self.member_id, self.epoch, instance_id=self.instance)
        if is_first:
            text = self.world.scenario.topologies[int(self.group_id[1:])]
            request.topology = sent(text.replace("~", f"{self.group_id}-"))
            request.process_id, request.rebalance_timeout_ms = self.process, self.rebalance_ms
        if says_tasks:
            request.active_tasks = _rows(self.owned)
            request.standby_tasks = _rows(self.standby)
            request.warmup_tasks = _rows(self.warmup)
            self.must_say_tasks = False
        if not is_first and random() < 0.1:
            lag = 0 if self.world.calm else int(random() * 300)
            request.task_offsets = [TaskOffset(*one, END - lag) for one in sorted(self.owned | self.standby)]
            request.task_end_offsets = [TaskOffset(*one, END) for one in sorted(self.owned | self.standby)]
        return request

    def leave(self) -> Script:
        """Leave in order; a static member says that it will return."""
        self.owned = self.standby = self.warmup = NONE
        away = not self.world.calm and self.instance is not None and self.world.random() < 0.6
        yield StreamsGroupHeartbeatRequest(self.group_id, self.member_id, -2 if away else -1, instance_id=self.instance)


def _rows(tasks: Tasks) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    numbers: dict[str, list[int]] = {}
    for name, number in sorted(tasks):
        numbers.setdefault(name, []).append(number)
    return [StreamsGroupHeartbeatRequestTaskIds(name, its) for name, its in numbers.items()]
