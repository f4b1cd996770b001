"""The table of converters, and capabilities by version."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module

import pytest

from muster.protocol import shapes
from muster.protocol.api import all_apis, api
from muster.protocol.shapes import _CONVERTERS, client_features
from tests.protocol.random_messages import draw, layouts

LAYOUTS = layouts()


@pytest.mark.parametrize("key", _CONVERTERS)
def test_a_converter_has_both_directions(key: int) -> None:
    module = import_module(f"muster.protocol.shapes.{_CONVERTERS[key][2]}")
    assert callable(module.raise_request)
    assert callable(module.lower_response)


@pytest.mark.parametrize("served", all_apis(), ids=lambda a: a.name)
def test_default_answers_can_be_said_in_every_version(served: object) -> None:
    known = api(served.key)  # type: ignore[attr-defined]  # an Api
    layout = LAYOUTS[known.name + "Response"]
    for version in range(known.min_version, known.max_version + 1):
        known.encode_response(version, shapes.lower_response(known.key, version, layout.message()))


@pytest.mark.parametrize("key", _CONVERTERS)
def test_raised_requests_can_be_said_in_the_newest_version(key: int) -> None:
    known = api(key)
    layout = LAYOUTS[known.name + "Request"]
    rng = random.Random(key)
    for version in range(known.min_version, _CONVERTERS[key][0]):
        data = layout.encode(version, draw(rng, layout, version))
        raised = shapes.raise_request(key, version, known.decode_request(version, data))
        if known.name != "Fetch":  # names topics by name below 13
            known.encode_request(known.max_version if known.name != "OffsetFetch" else 9, raised)


@pytest.mark.parametrize(
    ("capability", "first"),
    [
        (client_features.join_requires_known_member_id, 4),
        (client_features.join_supports_skip_assignment, 9),
        (client_features.sync_names_protocol, 5),
        (client_features.commit_knows_member_epochs, 9),
        (client_features.consumer_brings_member_id, 1),
        (client_features.describe_knows_group_not_found, 6),
        (client_features.produce_may_use_zstd, 7),
        (client_features.fetch_may_return_zstd, 10),
    ],
)
def test_capabilities_begin_with_a_version(capability: Callable[[int], bool], first: int) -> None:
    assert not capability(first - 1)
    assert capability(first)


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_begin_with_a_version(timestamp: int, first: int) -> None:
    assert not client_features.list_offsets_knows_timestamp(first - 1, timestamp)
    assert client_features.list_offsets_knows_timestamp(first, timestamp)


@pytest.mark.parametrize("timestamp", [0, 5, -1, -2])
def test_ordinary_timestamps_are_always_known(timestamp: int) -> None:
    assert client_features.list_offsets_knows_timestamp(1, timestamp)
