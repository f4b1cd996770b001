"""The table of converters."""

from __future__ import annotations

import random
from importlib import import_module

import pytest

from muster.protocol.api import CONVERTERS, all_apis, api
from tests.protocol.random_messages import draw, layouts
from tests.support.hub import lower_response, raise_request

LAYOUTS = layouts()


@pytest.mark.parametrize("key", CONVERTERS)
def test_a_converter_has_the_directions_of_its_row(key: int) -> None:
    raised_below, lowered_below, name = CONVERTERS[key]
    module = import_module(f"muster.protocol.shapes.{name}")
    assert hasattr(module, "raise_request") == (raised_below > 0)
    assert hasattr(module, "lower_response") == (lowered_below > 0)


@pytest.mark.parametrize("served", all_apis(), ids=lambda a: a.name)
def test_default_responses_can_be_encoded_in_each_version(served: object) -> None:
    known = api(served.key)
    layout = LAYOUTS[known.name + "Response"]
    for version in range(known.min_version, known.max_version + 1):
        known.encode_response(version, lower_response(known.key, version, layout.message()))


@pytest.mark.parametrize("key", CONVERTERS)
def test_raised_requests_can_be_encoded_in_the_newest_version(key: int) -> None:
    known = api(key)
    layout = LAYOUTS[known.name + "Request"]
    rng = random.Random(key)
    for version in range(known.min_version, CONVERTERS[key][0]):
        data = layout.encode(version, draw(rng, layout, version))
        raised = raise_request(key, version, known.decode_request(version, data))
        if known.name != "Fetch":  # below version 13 it names topics by name
            known.encode_request(known.max_version if known.name != "OffsetFetch" else 9, raised)
