"""aiokafka's own schemas read what we write and write the same bytes: every request and response they describe."""

from __future__ import annotations

import io
import pkgutil
import random
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import aiokafka.protocol
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.protocol.api import UnknownApi, api
from tests.protocol.random_messages import Layout, draw, layouts

# Schemas of aiokafka that are not Kafka's; kio agrees with us on these messages.
WRONG = {
    "OffsetRequest_v4": "has a leader epoch of 8 bytes",
    "OffsetRequest_v5": "has a leader epoch of 8 bytes",
    "DescribeAclsRequest_v2": "is not flexible",
    "DescribeAclsResponse_v2": "is not flexible",
}


def schemas() -> Iterator[Any]:
    """(our layout, version, their class) for each of their classes that has a counterpart."""
    ours = layouts()
    for found in pkgutil.iter_modules(aiokafka.protocol.__path__):
        module = import_module(f"aiokafka.protocol.{found.name}")
        cls: Any
        for cls in vars(module).values():
            if (
                not isinstance(cls, type)
                or not hasattr(cls, "SCHEMA")
                or not isinstance(cls.__dict__.get("API_KEY"), int)
            ):
                continue
            if cls.__name__ in WRONG:
                continue
            kind = "Request" if "Request" in cls.__name__ else "Response"
            try:
                served = api(cls.API_KEY)
            except UnknownApi:
                continue
            if served.knows(cls.API_VERSION):
                layout = ours[served.name + kind]
                yield pytest.param(layout, cls.API_VERSION, cls, id=f"{layout.name}-{cls.API_VERSION}-{cls.__name__}")


SCHEMAS = list(schemas())


def test_aiokafka_has_many_schemas() -> None:
    assert len(SCHEMAS) > 100


@pytest.mark.parametrize(("layout", "version", "theirs"), SCHEMAS)
@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32))
def test_aiokafka_writes_the_same_bytes(layout: Layout, version: int, theirs: Any, seed: int) -> None:
    data = layout.encode(version, draw(random.Random(seed), layout, version))
    stream = io.BytesIO(data)
    decoded = theirs.SCHEMA.decode(stream)
    assert stream.read() == b""
    assert theirs.SCHEMA.encode(decoded) == data
