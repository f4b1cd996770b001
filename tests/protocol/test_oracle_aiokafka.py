"""aiokafka's own schemas read our bytes and write the same bytes: every request and response that they describe."""

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

# Schemas of aiokafka that differ from Kafka; kio agrees with us on these messages.
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
        for name, cls in sorted(vars(import_module(f"aiokafka.protocol.{found.name}")).items()):
            schema, key = getattr(cls, "SCHEMA", None), vars(cls).get("API_KEY") if isinstance(cls, type) else None
            if schema is None or not isinstance(key, int) or name in WRONG:
                continue
            try:
                served = api(key)
            except UnknownApi:
                continue
            version: int = vars(cls)["API_VERSION"]
            if served.min_version <= version <= served.max_version:
                layout = ours[served.name + ("Request" if "Request" in name else "Response")]
                yield pytest.param(layout, version, schema, id=f"{layout.name}-{version}-{name}")


SCHEMAS = list(schemas())


def test_aiokafka_has_many_schemas() -> None:
    assert len(SCHEMAS) > 100


@pytest.mark.parametrize(("layout", "version", "schema"), SCHEMAS)
@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32))
def test_aiokafka_writes_the_same_bytes(layout: Layout, version: int, schema: Any, seed: int) -> None:
    data = layout.encode(version, draw(random.Random(seed), layout, version))
    stream = io.BytesIO(data)
    decoded = schema.decode(stream)
    assert stream.read() == b""
    assert schema.encode(decoded) == data
