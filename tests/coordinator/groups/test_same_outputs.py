"""The same inputs give the same outputs: in a repetition, under another hash seed, and with cached heartbeats and
commits. `test_properties` checks that a replay of the records gives the live state.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.coordinator.groups.classic import sessions
from muster.coordinator.groups.classic.sessions import SUCCESS, GenerationMember
from muster.coordinator.groups.common import state
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.offsets.commit import CommitTemplate, commit_prepared, id_of, prepare_commit
from muster.coordinator.state_machine.output import Output
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from tests.coordinator.groups.harness import GroupHarness
from tests.coordinator.groups.test_properties import KINDS, STEP, History

Steps = list[tuple[str, str, int, int, bool]]
ALL_KINDS = (*KINDS, "beat", "beat", "commit", "commit", "limit")
FIXED = 40
"""The number of histories that are played under another hash seed."""


class TracedHarness(GroupHarness):
    """Keeps all outputs of its core."""

    def __init__(self, **settings: int) -> None:
        self.trace: list[object] = []
        super().__init__(**settings)

    def collect(self, output: Output) -> Output:
        rows = [state.pack(record) for record in output.records]
        if output.replies or output.records or output.events:
            self.trace.append((repr(list(output.replies)), rows, repr(list(output.events))))
        return super().collect(output)


class CachingHarness(TracedHarness):
    """Caches each heartbeat and each commit, and uses the cached request whenever it is sent again."""

    def __init__(self, **settings: int) -> None:
        self.members: dict[str, GenerationMember] = {}
        self.templates: dict[str, CommitTemplate] = {}
        self.used = 0
        super().__init__(**settings)

    def send(self, request: Message, client: str = "c") -> Any:
        before = self.used
        if isinstance(request, HeartbeatRequest):
            self.heartbeat(request)
        elif isinstance(request, OffsetCommitRequest):
            self.prepared_commit(request)
        if self.used == before:
            return super().send(request, client)
        self.settle()
        return self.reply(self.asked)

    def heartbeat(self, request: HeartbeatRequest) -> None:
        known = self.members.get(repr(request))
        if known is not None and known.heartbeat(self.now.mono_ms):
            self.answer(SUCCESS, [])
            return
        made = sessions.prepare_heartbeat(self.core.state, request)
        if made is not None:
            self.members[repr(request)] = made

    def prepared_commit(self, request: OffsetCommitRequest) -> None:
        (topic,) = request.topics
        (row,) = topic.partitions
        offset, row.committed_offset = row.committed_offset, 0
        template = self.templates.get(repr(request))
        if template is None:
            template = prepare_commit(self.core.state, request, self.max_bytes)
            if template is not None:
                self.templates[repr(request)] = template
        row.committed_offset = offset
        if template is None:
            return
        rows = commit_prepared(
            self.core.state, template, [offset], [row.committed_leader_epoch], self.now, self.max_bytes
        )
        if rows is None:
            return
        written = state.offset_commit(
            request.group_id,
            topic.name,
            row.partition_index,
            offset,
            row.committed_leader_epoch,
            row.committed_metadata or "",
            self.now.wall_ms,
            -1,
            id_of(self.core.state.image, topic),
        )
        assert rows == [state.pack(written)]
        assert sum(map(len, rows)) == template.size
        self.answer(template.response, [written])

    def answer(self, response: Message, written: list[state.Record]) -> None:
        self.asked += 1
        self.used += 1
        self.collect(Output([(self.asked, response)], written))


def remembered(core: GroupCore) -> list[object]:
    """The whole state, with deadlines."""
    found: list[object] = [core.next_deadline_ms(), dict(core.state.offsets.groups())]
    groups: list[Any] = list(core.state.groups.values())  # all members are classic
    for group in groups:
        found += [getattr(group, name) for name in ("group_id", "state", "generation", "leader_id", "protocol_name")]
        found += [group.join_deadline.due_ms, group.sync_deadline.due_ms, list(group.pending_sync)]
        found += [(one.subject, one.due_ms) for one in group.pending.values()]
        for member in group.members.values():
            names = ("due_ms", "member_id", "session_timeout_ms", *type(member).__slots__)
            found.append([getattr(member, name) for name in names])
    return found


def played(steps: Steps, max_size: int, delay_ms: int, make_room: type[TracedHarness] = TracedHarness) -> list[object]:
    """All outputs of a history, and the state after each step."""
    history = History(max_size, delay_ms, make_room)
    histories: list[object] = []
    for step in steps:
        history.step(*step)
        harness: Any = history.harness
        histories += [harness.trace, remembered(harness.core)]
        harness.trace = []
    return histories


def fixed_histories() -> str:
    """The digest of some long histories."""
    digest = hashlib.sha256()
    for seed in range(FIXED):
        dice = random.Random(seed)
        steps: Steps = [
            (dice.choice(ALL_KINDS), dice.choice("gh"), dice.randint(0, 5), dice.randint(0, 4), dice.random() < 0.5)
            for _ in range(60)
        ]
        digest.update(repr(played(steps, 5, 0)).encode())
    return digest.hexdigest()


steps_of_all_kinds = st.lists(
    st.tuples(st.sampled_from(ALL_KINDS), *STEP.wrapped_strategy.element_strategies[1:]), min_size=5, max_size=60
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 5), st.sampled_from([0, 3_000]), steps_of_all_kinds)
def test_cached_requests_give_the_same_outputs_in_random_histories(max_size: int, delay_ms: int, steps: Steps) -> None:
    usual = played(steps, max_size, delay_ms)
    assert played(steps, max_size, delay_ms) == usual
    assert played(steps, max_size, delay_ms, CachingHarness) == usual


def test_the_comparison_uses_cached_and_plain_requests() -> None:
    harness = CachingHarness()
    member, _ = harness.stable()
    for _ in range(3):
        assert harness.beat(member) == harness.commit(member, harness.group().generation) == 0
    assert harness.used == 5


def test_another_hash_seed_gives_the_same_outputs() -> None:
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    program = "from tests.coordinator.groups.test_same_outputs import fixed_histories; print(fixed_histories())"
    other = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == fixed_histories()
