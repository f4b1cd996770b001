"""The verbs on the records of share groups: waits, ended locks, held acknowledgements, and records delivered again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster.coordinator.server import group_snapshots
from muster.testcontrol.errors import CannotBeDone, WaitFailed, WrongValue
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import NewRecord
from tests.support.muster import connected
from tests.support.share_members import ACCEPT, REJECT, RELEASE, ShareMember, configure, share_member
from tests.testcontrol.server import controlled

INVALID_RECORD_STATE = 121


@asynccontextmanager
async def holding(records: int = 5, **properties: str) -> AsyncIterator[tuple[ServerControl, ShareMember]]:
    """A server, and a member `w` of the share group `g`. The member holds all records of the topic `t`."""
    async with controlled(topics=["t:1"], **properties) as control:
        await control.topics.produce("t", [NewRecord(b"%d" % number) for number in range(records)])
        async with share_member(control.server, "g", "w", "t") as member:
            assert await member.fetch() == [(0, 0, records - 1, 1)]
            yield control, member


async def test_the_records_of_a_share_group_are_described() -> None:
    async with holding() as (control, member):
        group = await control.groups.wait_stable("g", members=1, partitions="t")
        assert (group.kind, group.protocol, group.members[0].client_id) == ("share", "simple", "w")
        assert group.assignment == {"t": {0: "w"}}
        await member.acknowledge({0: [(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)]})
        group = control.groups.describe("g")
        view = group.records["t"][0]
        assert (view.start_offset, view.end_offset, view.first_open, view.lag) == (1, 5, 1, 3)
        assert (view.in_flight, view.held, view.retried) == (2, {"w": 2}, 1)
        assert (view.accepted, view.released, view.archived, view.dead_letters) == (1, 1, 1, 0)
        assert (group.offsets, group.total_lag) == ({"t": {0: 1}}, 3)
        assert "t-0: lag 3, 2 in flight, 1 retried, 1 accepted, 1 released, 1 archived" in str(group)
        assert type(group).of_fields(group.as_fields()) == group
        assert group.as_json()["records"]["t"]["0"]["held"] == {"w": 2}


async def test_waits_for_records_end_when_deliveries_end() -> None:
    async with holding() as (control, member):
        groups = control.groups
        waits = asyncio.gather(
            groups.wait_acknowledged("g", "t"),
            groups.wait_records("g", "released", 1, "t"),
            groups.wait_records("g", "archived"),
        )
        assert (await groups.wait_records("g", "in_flight", 5, member="w")).records["t"][0].in_flight == 5
        await member.acknowledge({0: [(0, 2, ACCEPT), (3, 3, RELEASE), (4, 4, REJECT)]})
        assert await member.fetch() == [(0, 3, 3, 2)]
        await member.acknowledge({0: [(3, 3, ACCEPT)]})
        done, released, archived = await waits
        assert (done.records["t"][0].first_open, done.total_lag) == (5, 0)
        assert (released.records["t"][0].released, archived.records["t"][0].archived) == (1, 1)
        await groups.wait_acknowledged("g", up_to={("t", 0): 5})
        with pytest.raises(WaitFailed, match="2 records are held by member w of t\n"):
            await groups.wait_records("g", "in_flight", 2, "t", member="w", timeout_s=0)
        await control.topics.produce("t", [NewRecord(b"more")])
        with pytest.raises(WaitFailed, match="has accepted or archived t-0 up to 6"):
            await groups.wait_acknowledged("g", timeout_s=0)
        with pytest.raises(WrongValue):
            await groups.wait_records("g", "in_flight", 0)


async def test_a_group_that_has_not_begun_is_not_done() -> None:
    async with controlled(topics=["t:1"]) as control:
        await control.topics.produce("t", [NewRecord(b"a")])
        with pytest.raises(WaitFailed):
            await control.groups.wait_acknowledged("nobody", "t", timeout_s=0)
        async with share_member(control.server, "g", "w", "t"):
            with pytest.raises(WaitFailed):
                await control.groups.wait_acknowledged("g", "t", timeout_s=0)
            view = control.groups.describe("g").records["t"][0]
            assert (view.start_offset, view.first_open, view.lag) == (-1, 0, 1)


async def test_locks_end_for_one_record_a_range_and_a_member() -> None:
    async with holding() as (control, member):
        groups = control.groups
        assert groups.expire_locks("g", topic="t", partition=0, offset=2) == 1
        assert groups.describe("g").records["t"][0].held == {"w": 4}
        assert await member.acknowledge({0: [(2, 2, ACCEPT)]}) == [INVALID_RECORD_STATE]
        assert groups.expire_locks("g", topic="t", partition=0, offset=0, last_offset=2) == 2
        assert groups.expire_locks("g", "w", topic="t") == 2
        found = (await groups.wait_records("g", "released", 5)).records["t"][0]
        assert (found.in_flight, found.retried) == (0, 5)
        history = await groups.history("g")
        assert any("held 1 record of t-0 (offset 2) until the lock was over in delivery 1" in line for line in history)
        with pytest.raises(CannotBeDone, match="nobody holds such records in group g:\n  no record is held"):
            groups.expire_locks("g")
        assert len(await member.fetch()) >= 1
        with pytest.raises(CannotBeDone, match="member w holds t-0, offsets"):
            groups.expire_locks("g", topic="other")
        for wrong in ({"partition": 0}, {"topic": "t", "offset": 1}, {"topic": "t", "partition": 0, "last_offset": -1}):
            with pytest.raises(WrongValue):
                groups.expire_locks("g", **wrong)


async def test_a_record_is_delivered_again_where_kafka_would() -> None:
    async with holding(group_share_delivery_count_limit="2") as (control, member):
        groups = control.groups
        await member.acknowledge({0: [(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, ACCEPT)]})
        groups.deliver_again("g", "t", 0, 1)  # it is available already
        groups.deliver_again("g", "t", 0, 3)
        assert await member.fetch() == [(0, 1, 1, 2), (0, 3, 3, 2)]
        await control.topics.produce("t", [NewRecord(b"more")])
        for offset, why in (
            (0, "the group is done with record 0 of t-0: Kafka delivers it again only after"),
            (2, "the group is done with record 2"),
            (3, "record 3 of t-0 was delivered 2 times, as often as the group allows"),
            (5, "nobody has got record 5 of t-0 yet"),
        ):
            with pytest.raises(CannotBeDone, match=why):
                groups.deliver_again("g", "t", 0, offset)
        with pytest.raises(CannotBeDone, match="no member of group g reads other-0 now"):
            groups.deliver_again("g", "other", 0, 0)


async def test_a_dead_letter_is_waited_for() -> None:
    more = {"errors_deadletterqueue_auto_create_topics_enable": "true"}
    async with holding(**more) as (control, member):
        await configure(member.client, "g", {"errors.deadletterqueue.topic.name": "dlq.t"})
        await member.acknowledge({0: [(4, 4, REJECT)]})
        view = (await control.groups.wait_records("g", "dead_letters")).records["t"][0]
        assert (view.archived, view.dead_letters) == (1, 1)
        assert len(control.topics.records("dlq.t")) == 1


async def test_acknowledgements_are_held_until_their_release() -> None:
    async with holding() as (control, member):
        groups = control.groups
        groups.hold_acknowledgements("g")
        acknowledging = asyncio.create_task(member.acknowledge({0: [(0, 4, ACCEPT)]}))
        await groups.wait_acknowledgements_held("g", 1)
        with pytest.raises(WaitFailed, match="1 requests with acknowledgements are held back"):
            await groups.wait_acknowledged("g", "t", timeout_s=0)
        assert groups.release_acknowledgements("g") == 1
        assert await acknowledging == [0]
        await groups.wait_acknowledged("g", "t")
        groups.hold_acknowledgements("g")
        assert await member.fetch(max_wait_ms=0) == []  # a fetch without acknowledgements is not held
        await control.tidy()
        assert not control.acknowledgements.holds("g")


async def test_a_member_expires_and_start_offsets_are_reset() -> None:
    async with holding() as (control, member):
        groups = control.groups
        with pytest.raises(CannotBeDone, match="is a share group: its members share partitions"):
            groups.rebalance("g")
        with pytest.raises(CannotBeDone, match="has members"):
            await groups.reset_offsets("g", "earliest")
        await member.acknowledge({0: [(0, 4, ACCEPT)]})
        groups.expire("g", "w")
        assert groups.describe("g").state == "Empty"
        assert any("sent no heartbeat for" in line for line in await groups.history("g"))
        member.client.writer.close()
        assert await groups.reset_offsets("g", 3) == {"t": {0: 3}}
        assert groups.describe("g").offsets == {"t": {0: 3}}
        async with connected(control.server, "x") as client:
            again = ShareMember(control.server, client, "g", "x", "t")
            await again.join()
            assert await again.fetch() == [(0, 3, 4, 1)]
            with pytest.raises(CannotBeDone, match="has members"):
                await groups.reset_offsets("g", "latest")


async def test_the_history_of_a_busy_queue_is_smaller_than_its_records() -> None:
    async with controlled(topics=["t:1"], starts_frozen=True) as control:
        server = control.server
        await control.topics.produce("t", [NewRecord(bytes(100)) for _ in range(500)])
        records = server.topics.open.partition("t", 0)
        assert records is not None
        async with share_member(server, "g", "w", "t") as member:
            history = group_snapshots.history_of(server, "g")
            assert history is not None
            before, delivered = history.log.size_bytes, 0
            while delivered < 1_000:
                for _, first, last, _ in await member.fetch():
                    # each record for itself: no two of them are one event
                    await member.acknowledge({0: [(one, one, 1 + one % 2) for one in range(first, last + 1)]})
                    delivered += last - first + 1
                await control.time.advance(1_000)
            events = [one for one in await control.groups.events("g") if one["kind"] == "deliveries_failed"]
            reported = sum(one["records"] + one["left_out"] for one in events)
            written = history.log.size_bytes - before
        carried = records.log.size_bytes * delivered // 500
        assert reported >= delivered // 2
        assert len(events) <= 21 * (delivered // 100)
        assert written < carried / 3, (written, carried)
