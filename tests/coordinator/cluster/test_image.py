from __future__ import annotations

import pytest

from muster.coordinator.topics.cluster_image import Broker, ClusterImage, Endpoint, Leader
from tests.coordinator.api.harness import make_channel, make_context

HERE, THERE = Endpoint("here.example", 1234), Endpoint("there.example", 9999)
TWO = ClusterImage(
    "id",
    controller_id=1,
    node_id=1,
    brokers={
        1: Broker(1, None, {}, epoch=7),
        2: Broker(2, "a", {"PLAINTEXT": THERE}, epoch=8),
        3: Broker(3, "b", {"PLAINTEXT": THERE}, epoch=9, fenced=True),
    },
    leaders={"t": (Leader(1, 0), Leader(2, 5))},
)
CONTEXT = make_context(channel=make_channel(*HERE))


def test_this_node_has_the_address_of_the_clients_connection() -> None:
    assert TWO.endpoint(1, CONTEXT) == HERE


def test_other_brokers_have_their_address_on_the_clients_listener() -> None:
    assert TWO.endpoint(2, CONTEXT) == THERE
    assert TWO.endpoint(2, make_context(channel=make_channel(listener="INTERNAL"))) is None
    assert TWO.endpoint(9, CONTEXT) is None


def test_a_fenced_broker_is_listed_only_on_request() -> None:
    assert [(broker.broker_id, endpoint) for broker, endpoint in TWO.reachable(CONTEXT)] == [(1, HERE), (2, THERE)]
    all_of_them = TWO.reachable(CONTEXT, also_fenced=True)
    assert [(broker.broker_id, endpoint) for broker, endpoint in all_of_them] == [(1, HERE), (2, THERE), (3, THERE)]


@pytest.mark.parametrize(
    ("topic", "index", "elsewhere"),
    [("t", 0, False), ("t", 1, True), ("t", 2, False), ("t", -1, False), ("u", 0, False)],
)
def test_the_image_knows_which_partitions_other_brokers_lead(topic: str, index: int, elsewhere: bool) -> None:
    assert TWO.is_led_elsewhere(topic, index) is elsewhere


def test_the_last_broker_lists_itself_also_when_fenced_or_unregistered() -> None:
    """A client that gets an empty list of brokers forgets all of them."""
    fenced = {one: broker._replace(fenced=True) for one, broker in TWO.brokers.items()}
    image = ClusterImage("id", -1, 1, fenced, {})
    assert [(broker.broker_id, endpoint) for broker, endpoint in image.reachable(CONTEXT)] == [(1, HERE)]
    image = ClusterImage("id", -1, 1, {}, {})
    assert [(broker.broker_id, endpoint) for broker, endpoint in image.reachable(CONTEXT)] == [(1, HERE)]
