"""kio reads our bytes and writes the same bytes: every version of every message that kio has."""

from __future__ import annotations

import io
import random
from importlib import import_module
from pathlib import Path
from typing import Any

import kio.schema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from tests.protocol.random_messages import Layout, draw, layouts

SCHEMA = Path(kio.schema.__path__[0])


def kio_module(layout: Layout, version: int) -> str | None:
    """The name of kio's module with a message; None when it has none. To import them all takes some seconds."""
    api = layout.module.__name__.rpartition(".")[2]
    for kind in ("Request", "Response"):
        if layout.name.endswith(kind):
            place, part = api, kind.lower()
            break
    else:
        place, part = "".join(f"_{c.lower()}" if c.isupper() else c for c in layout.name).lstrip("_"), "data"
    is_there = (SCHEMA / place / f"v{version}" / f"{part}.py").is_file()
    return f"kio.schema.{place}.v{version}.{part}" if is_there else None


def pairs() -> list[Any]:
    found = [
        (layout, version, kio_module(layout, version)) for layout in layouts().values() for version in layout.versions
    ]
    return [pytest.param(*p, id=f"{p[0].name}-{p[1]}") for p in found if p[2] is not None]


PAIRS = pairs()


def test_kio_has_most_messages() -> None:
    assert len(PAIRS) > 400


@pytest.mark.parametrize(("layout", "version", "module"), PAIRS)
@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32))
def test_kio_writes_the_same_bytes(layout: Layout, version: int, module: str, seed: int) -> None:
    theirs = getattr(import_module(module), layout.name)
    message = draw(random.Random(seed), layout, version)
    data = layout.encode(version, message)
    entity, size = entity_reader(theirs)(data, 0)
    assert size == len(data)
    out = io.BytesIO()
    entity_writer(theirs)(out, entity)
    assert out.getvalue() == data
    assert layout.codec("DECODE", version)(data, 0, len(data)) == message
