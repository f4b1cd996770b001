"""No row is missing in the tables: a type of group in one table is in all tables."""

from __future__ import annotations

from muster.coordinator.groups import core
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.share.group import ShareGroup
from muster.coordinator.groups.streams.group import StreamsGroup

TYPES = {ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup}


def test_every_type_of_group_has_a_row_in_each_dispatch_table() -> None:
    assert set(core.LOADED) == set(core.UNLOADED) == TYPES
    for rows in (core.HEARTBEATS, *core.MEMBER_REQUESTS.values()):
        assert set(rows) == {*TYPES, core.NO_GROUP}


def test_every_member_request_has_a_handler() -> None:
    assert set(core.MEMBER_REQUESTS) <= set(core.HANDLERS)
