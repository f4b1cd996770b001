"""Every API against an authorizer that refuses: the table of `authorization_cases`."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.node import Node
from muster.coordinator.api.registry import SERVED
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.system.jobs import at_once
from muster.protocol.api import api_named
from muster.protocol.messages.api_versions import ApiVersionsRequest
from tests.coordinator.api import harness
from tests.coordinator.api.authorization_cases import CASES, Case, commit
from tests.coordinator.api.data_plane import data_node, send, topic_id
from tests.coordinator.api.harness import Refusing, make_context, make_group_node
from tests.coordinator.api.share.serving import serve_shares


@pytest.fixture
def node() -> Node:
    """A node with a topic `t` and a group `g` that has committed an offset."""
    node = data_node()
    at_once(node.topics.ensuring("t"))
    groups = make_group_node(node.topics, shards=1, clock=node.clock)
    node.routing = Routing(groups.routing.shards)
    node.cluster = groups.cluster
    serve_shares(node)
    send(node, commit(topic_id(node, "t"))).one()
    return node


def ask(node: Node, case: Case) -> Any:
    request = case.request(topic_id(node, "t"))
    key = api_named(type(request).__name__.removesuffix("Request")).key
    version = SERVED[key].max_version if case.version is None else case.version
    return harness.ask(node, request, make_context(key, version)).one()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_api_asks_for_the_permissions_of_the_table(node: Node, case: Case) -> None:
    node.authorizer = authorizer = Refusing()
    ask(node, case)
    assert set(authorizer.asked) == set(case.asks)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_api_refuses_a_client_without_permission(node: Node, case: Case) -> None:
    before = sorted(node.topics.by_name)
    node.authorizer = Refusing(*case.refused)
    assert case.shown(ask(node, case)) == case.expected
    assert sorted(node.topics.by_name) == before


def test_every_served_api_is_in_the_authorization_table() -> None:
    asked = {api_named(type(case.request(bytes(16))).__name__.removesuffix("Request")).key for case in CASES}
    anybody = api_named(ApiVersionsRequest.__name__.removesuffix("Request")).key
    assert asked == set(SERVED) - {anybody}
