"""The signs of life that commits are."""

from __future__ import annotations

import pyarrow as pa

from muster.pipeline.tables.commit_activity import activity
from muster.pipeline.tables.commits import walked
from muster.pipeline.tables.schema import TABLES
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import Commits, ms

SCHEMA = pa.schema([*TABLES["commits"], ("producer_id", pa.int64()), ("state", pa.int32())])


def last_signs(engine: Engine, commits: Commits) -> list[int]:
    rows = [row | {"state": 1} for row in commits.rows]
    found = collected(activity(walked(engine.frame(pa.Table.from_pylist(rows, SCHEMA)), None)))
    return [one["last_ms"] for row in found for one in row["activity"]]


def test_transactions_of_a_program_that_is_no_member_are_no_sign_of_its_owner(engine: Engine) -> None:
    plain = Commits("plain").by("a", (0, 100), (5, 110))
    assert last_signs(engine, plain.by("a", (30, 3), producer_id=6)) == [ms(5)]
    in_transactions = Commits("exactly-once").by("a", (0, 100), (5, 110), producer_id=6)
    assert last_signs(engine, in_transactions) == [ms(5)]
