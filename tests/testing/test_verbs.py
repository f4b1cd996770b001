"""Every verb on groups with every client library of Python, and with both protocols."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.testing import CannotBeDone, Muster
from tests.testing.clients import CLIENTS, attempts


@pytest.fixture(scope="module")
def server() -> Iterator[Muster]:
    with Muster(topics={"orders": 4}) as running:
        yield running


@pytest.mark.parametrize("client", CLIENTS)
def test_each_group_verb_works_with_each_client_in_both_forms(server: Muster, client: str) -> None:
    attempts(client, lambda group_id: every_verb(server, client, group_id))


def every_verb(server: Muster, client: str, group_id: str) -> None:
    at, group, topic = server.bootstrap_servers, server.group(group_id), server.topic("orders")
    topic.produce("a", "b", "c", "d")
    group.hold_joins()
    with CLIENTS[client](at, "orders", group.id, "one"), CLIENTS[client](at, "orders", group.id, "two"):
        group.wait_held(2)
        assert group.members == ()
        assert group.release() == 2
        view = group.wait_stable(members=2, partitions="orders")
        assert view.kind == ("consumer" if client == "confluent-consumer" else "classic")
        assert sorted(len(one.assignment["orders"]) for one in view.members) == [2, 2]
        assert group.wait_consumed("orders").total_lag == 0
        group.rebalance()
        view = group.wait_until(lambda one: one.is_stable and one.generation > view.generation, what="is done")
        assert len(view.members) == 2
        for verb in (group.expire, group.remove):
            gone = view.member("one")
            assert gone is not None
            verb("one")
            # its consumer gets the error and joins again: with the same id if it draws that itself
            view = group.wait_until(
                lambda one, before=view: one.is_stable and len(one.members) == 2 and one.generation > before.generation,
                what="has both members again",
            )
        with pytest.raises(CannotBeDone, match="has members"):
            group.reset_offsets("earliest")
    group.wait_until(lambda one: not one.members, what="is empty")
    assert sum(group.reset_offsets("earliest")["orders"].values()) == 0
    assert group.describe().total_lag == sum(topic.end_offsets().values())
    reported = {event["kind"] for event in group.events()}
    assert {"member_joined", "member_expired", "member_left"} <= reported
    assert group.history()
