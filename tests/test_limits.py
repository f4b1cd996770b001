"""docs/limits.md has the values of the code: each constant and property that it names has its value in the same row.

All other limits are in the reference that the site makes of the code.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from muster.coordinator.properties.lookup import BROKER, MUSTER, TOPIC
from tests.test_repo import ROOT
from tools.site.references import limits

NO_NUMBER = {"Kafka's protocol", "`api/registry.py` ONLY_READS"}
FILE = re.compile(r"`((?:\w+/)*\w+)\.py`((?:,? [A-Z_]{4,})+)")
NAME = re.compile(r"[A-Z_]{4,}")
PROPERTY = re.compile(r"`((?:\w+\.)+\w+)`")
KB, MB, GB = (1 << shift for shift in (10, 20, 30))
UNLIMITED = {(1 << 31) - 1, (1 << 63) - 1}


class Claim(NamedTuple):
    """What a row says of one name."""

    name: str
    value: object
    text: str

    def __str__(self) -> str:
        return self.name


def constants(cell: str) -> Iterator[tuple[str, object]]:
    for path, names in FILE.findall(cell):
        module = path.replace("/", ".")
        top = "" if (ROOT / path.partition("/")[0]).is_dir() else "coordinator."
        room = importlib.import_module(f"muster.{top}{module}")
        for name in NAME.findall(names):
            found = getattr(room, name)
            if isinstance(found, frozenset):
                continue  # of the things that a limit counts
            for number, value in enumerate(found if isinstance(found, tuple) else (found,)):
                yield f"{path}.{name}.{number}", value


def properties(cell: str) -> Iterator[tuple[str, object]]:
    for name in PROPERTY.findall(cell):
        if not name.endswith(".py"):
            found = BROKER.get(name) or MUSTER.get(name) or TOPIC[name]
            yield name, int(found.default or "")


def rows() -> Iterator[list[str]]:
    for line in (ROOT / "docs" / "limits.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| limit | value |"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def claims() -> Iterator[Claim]:
    for limit, value, set_by, beyond in rows():
        for name, found in (*constants(set_by), *properties(set_by)):
            yield Claim(name, found, f"{limit} | {value} | {beyond}")


def said(value: int) -> Iterator[str]:
    """The texts that stand for a number."""
    yield f"{value:,}"
    yield f"({value})"
    for unit, size in (("KB", KB), ("MB", MB), ("GB", GB), ("s", 1_000), ("min", 60_000), ("million", 1_000_000)):
        if value % size == 0:
            yield f"{value // size:,} {unit}"
    if value == 1_000_000:
        yield "a million"
    if value == 4:
        yield "a quarter"
    if value % MB == MB - KB:
        yield f"{value // MB + 1} MB less 1 KB"
    if value in UNLIMITED:
        yield from ("no limit", "none")


@pytest.mark.parametrize("claim", [*claims()], ids=str)
def test_a_limit_in_the_docs_has_the_value_of_the_code(claim: Claim) -> None:
    assert isinstance(claim.value, int)
    ways = [*said(claim.value)]
    assert any(re.search(rf"(?<![\d,.]){re.escape(way)}(?![,.]?\d)", claim.text) for way in ways), (ways, claim)


def test_each_limit_names_a_constant_or_a_property() -> None:
    for limit, _, set_by, _ in rows():
        assert set_by in NO_NUMBER or [*constants(set_by), *properties(set_by)], limit


def test_each_limit_in_the_code_is_explained() -> None:
    """The reference of limits shows each constant with its docstring, or with that of the constants in the same row."""
    found = [*limits.limits()]
    assert len(found) > 300
    assert [f"{one.module}: {one.name}" for one in found if not one.text] == [], "these need a docstring"
