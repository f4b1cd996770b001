"""No row is missing in the tables: a type of group that is added to one of them is added to all."""

from __future__ import annotations

import pytest

from muster.coordinator.groups import consumer_rows, dispatch
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.unsupported_group import UnsupportedGroup

TYPES = {ClassicGroup, ConsumerGroup, UnsupportedGroup}


def test_every_type_of_group_has_its_rows() -> None:
    late = (dispatch.LOADED, dispatch.UNLOADED, dispatch.HEARTBEATS, *dispatch.MEMBER_REQUESTS.values())
    assert all(rows[ConsumerGroup] for rows in late)  # there when it is asked for
    assert set(dispatch.LOADED) == set(dispatch.UNLOADED) == TYPES
    for rows in (dispatch.HEARTBEATS, consumer_rows.CONSUMER_HEARTBEATS, *dispatch.MEMBER_REQUESTS.values()):
        assert set(rows) == {*TYPES, dispatch.NO_GROUP}


def test_what_is_in_no_table_is_an_error() -> None:
    with pytest.raises(KeyError):
        dispatch.DEADLINES["nothing"]


def test_no_request_is_in_two_tables() -> None:
    assert not set(dispatch.REQUESTS) & set(dispatch.MEMBER_REQUESTS)
