"""Random histories of a core: invariants are checked after every step, and the records are replayed at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.coordinator.groups.classic import sessions
from muster.coordinator.groups.classic.group import COMPLETING, EMPTY, PREPARING, STABLE, classic_group
from muster.coordinator.groups.classic.sessions import SUCCESS, GenerationMember
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from muster.protocol.records import OFFSETS, encode_record
from tests.coordinator.groups.harness import BOTH, RANGE, GroupHarness
from tests.stories.virtual import persisted

PROTOCOLS = (RANGE, BOTH, BOTH[::-1], (("range", b"other"),), (("x", b""),))

KINDS = (
    *("join", "join", "join", "rejoin", "rejoin", "rejoin", "sync", "sync", "sync", "beat", "commit", "leave"),
    *("pass", "pass", "delete", "forget", "reload"),
)
STEP = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from("gh"),
    st.integers(0, 5),
    st.integers(0, 4),
    st.booleans(),
)


class History:
    """A core, and what its clients remember: their member ids."""

    def __init__(self, max_size: int, delay_ms: int, make_room: Callable[..., GroupHarness] = GroupHarness) -> None:
        self.settings = {"group_max_size": max_size, "group_initial_rebalance_delay_ms": delay_ms}
        self.make_room = make_room
        self.harness = make_room(**self.settings)
        self.ids: list[str] = [""]
        self.generations: dict[str, int] = {}
        self.parked: set[object] = set()
        self.prepared: dict[tuple[Any, ...], GenerationMember] = {}

    def step(self, what: str, group: str, who: int, choice: int, flag: bool) -> None:
        harness = self.harness
        member = self.ids[-1 - who % len(self.ids)]
        if what == "join":
            instance = f"i{who}" if flag else None
            self.note(
                harness.join(group=group, instance=instance, protocols=PROTOCOLS[choice % 3], needs_id=bool(who % 2))
            )
        elif what == "rejoin":
            timeout = 3_000 * (1 + who % 3)
            protocols = PROTOCOLS[choice]
            self.note(harness.join(member, group=group, protocols=protocols, session=timeout, rebalance=timeout * who))
        elif what == "sync":
            self.sync(group, member, choice)
        elif what == "beat":
            harness.beat(member, self.generation(group) - (choice == 0), group=group)
        elif what == "commit":
            generation = -1 if flag else self.generation(group)
            harness.commit("" if flag else member, generation, group=group, partition=choice, retention=choice - 2)
        elif what == "leave":
            harness.leave(member, group=group, instance=f"i{who}" if flag else None)
        elif what == "pass":
            harness.advance((0, 100, 1_500, 4_000, 25_000)[choice])
        elif what == "delete":
            harness.send(DeleteGroupsRequest([group]))
        elif what == "forget":
            rows = [OffsetDeleteRequestPartition(choice)]
            harness.send(OffsetDeleteRequest(group, [OffsetDeleteRequestTopic("t", rows)]))
        elif what == "limit":
            harness.max_bytes = (120, 250, 400, 1_000_000, 1_000_000)[choice]
        elif flag and not choice:
            self.reload()

    def sync(self, group: str, member: str, choice: int) -> None:
        known = classic_group(self.harness.core.state, group)
        if known is not None and known.state == COMPLETING and choice:
            member = list(known.members)[choice % len(known.members)]
        shares = {one: b"%d" % i for i, one in enumerate(known.members)} if known is not None else {}
        self.harness.sync(member, shares, generation=self.generation(group), group=group, protocol=None)

    def generation(self, group: str) -> int:
        known = classic_group(self.harness.core.state, group)
        return known.generation if known is not None else 0

    def note(self, reply: Any) -> None:
        if reply is not None and reply.member_id and reply.member_id not in self.ids:
            self.ids.append(reply.member_id)
        for group in self.harness.core.state.groups.values():
            self.ids += [one for one in group.members if one not in self.ids]

    def reload(self) -> None:
        """The server dies and another takes its log: parked requests get no answer."""
        old, self.harness = self.harness, self.make_room(**self.settings)
        self.harness.asked, self.harness.now, self.harness.max_bytes = old.asked, old.now, old.max_bytes
        self.harness.records, self.harness.replies = old.records, {token: [] for token in range(1, old.asked + 1)}
        for record in old.records:
            self.harness.core.replay([(record.key, record.value)], old.now)
        self.generations, self.prepared = {}, {}
        self.harness.collect(self.harness.core.loaded(old.now))

    def check(self) -> None:
        """Check what must hold after every step."""
        state = self.harness.core.state
        for group_id, group in state.groups.items():
            assert type(group).__name__ == "ClassicGroup"
            known: Any = group
            members = known.members
            assert all(one.member_id == key for key, one in members.items())
            assert known.static_ids == {one.instance_id: key for key, one in members.items() if one.instance_id}
            assert not set(known.pending) & set(members)
            assert set(known.pending_sync) <= set(members)
            assert known.parked_joins == sum(one.parked_join is not None for one in members.values())
            assert (known.leader_id in members) if members else (known.leader_id is None)
            assert known.generation >= self.generations.get(group_id, 0)
            assert (known.state == EMPTY) <= (not members)
            assert (known.state in (COMPLETING, STABLE)) <= bool(members)
            assert (known.parked_joins == 0) or known.state == PREPARING
            assert (known.state == COMPLETING) or all(one.parked_sync is None for one in members.values())
            if members:
                assert known.support.candidates()
            if known.state == PREPARING:
                assert known.join_deadline.due_ms >= self.harness.now.mono_ms
                assert known.initial or known.parked_joins < len(members) or known.pending or self.full(known)
            if known.state in (COMPLETING, STABLE) and known.pending_sync:
                assert known.sync_deadline.due_ms >= self.harness.now.mono_ms
            for one in members.values():
                parked = one.parked_join is not None or one.parked_sync is not None
                assert parked or self.harness.now.mono_ms <= one.due_ms < 2**63 - 1
        self.check_prepared()
        self.generations = {group_id: group.generation for group_id, group in state.groups.items()}
        assert all(len(got) <= 1 for got in self.harness.replies.values())
        assert self.open() == self.waiting()

    def check_prepared(self) -> None:
        """Check that a prepared heartbeat succeeds only when the same heartbeat, handled plainly, does."""
        core, now = self.harness.core, self.harness.now.mono_ms
        groups: list[Any] = list(core.state.groups.values())  # all members are classic
        for group in groups:
            for member in group.members.values():
                for instance in {None, member.instance_id}:
                    names = group.group_id, group.generation, member.member_id, instance
                    made = sessions.prepare_heartbeat(core.state, HeartbeatRequest(*names))
                    assert made is not None
                    self.prepared.setdefault(names, made)
        for names, prepared in self.prepared.items():
            members = [one for group in groups for one in group.members.values()]
            due = [one.due_ms for one in members]
            if prepared.heartbeat(now):
                beaten = [one.due_ms for one in members]
                assert core.heartbeat(HeartbeatRequest(*names), now) is SUCCESS
                assert [one.due_ms for one in members] == beaten
            for one, due_ms in zip(members, due, strict=True):
                one.due_ms = due_ms

    def full(self, group: Any) -> bool:
        # Kafka does not check whether it waited only for the member that it refuses
        return len(group.members) >= self.settings["group_max_size"]

    def open(self) -> set[object]:
        """The requests that have not been answered."""
        return {token for token in range(1, self.harness.asked + 1) if token not in self.harness.replies}

    def waiting(self) -> set[object]:
        """The tokens that are parked."""
        state = self.harness.core.state
        tokens = {token for token, _ in state.abandoned.values()}
        for group in state.groups.values():
            for one in group.members.values():
                tokens |= {token for token in (one.parked_join, one.parked_sync) if token is not None}
        return tokens


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 5), st.sampled_from([0, 3_000]), st.lists(STEP, min_size=5, max_size=60))
def test_random_histories_keep_the_invariants_and_replay_to_the_same_state(
    max_size: int, delay_ms: int, steps: list[tuple[str, str, int, int, bool]]
) -> None:
    history = History(max_size, delay_ms)
    for step in steps:
        history.step(*step)
        history.check()
    # every request is answered once, at the latest at the end of the core
    live = history.harness.core
    again = GroupHarness(**history.settings).core
    for record in history.harness.records:
        key, value = encode_record(OFFSETS, record)
        record_type, key_message = OFFSETS.decode_key(key)
        decoded = None if value is None else OFFSETS.decode_value(record_type, value)[1]
        again.replay([(key_message, decoded)], history.harness.now)
    again.loaded(history.harness.now)
    assert persisted(again, live) == persisted(live, live)
    history.harness.collect(live.resign(16))
    assert not any(one.heartbeat(history.harness.now.mono_ms) for one in history.prepared.values())
    assert history.open() == set()
    assert all(len(got) <= 1 for got in history.harness.replies.values())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([0, 3_000]), st.lists(STEP, min_size=5, max_size=40))
def test_a_group_becomes_stable_after_any_history_if_its_members_behave(
    delay_ms: int, steps: list[tuple[str, str, int, int, bool]]
) -> None:
    history = History(5, delay_ms)
    for step in steps:
        history.step(*step)
    harness = history.harness
    harness.advance(400_000)  # all silent members have expired
    assert all(group.state == EMPTY for group in harness.core.state.groups.values())
    harness.join()
    harness.join()
    ids = list(harness.group().members)
    if harness.group().members[ids[0]].parked_join is None:  # no delay: the member was alone in its first generation
        harness.join(ids[0])
    harness.advance(2 * delay_ms)
    assert harness.group().state == COMPLETING
    for member in ids:
        harness.sync(member, dict.fromkeys(ids, b"x"))
    assert harness.group().state == STABLE
    assert [harness.beat(member) for member in ids] == [0, 0]
    assert history.open() == set()
