"""The epochs of KIP-848 groups from `__group_events`: why each was raised, and by whom, exactly. Where the offsets log
has the epoch too, it knows better who had what when; where it is compacted, these rows are all there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.coordinator.groups.common import events as kinds
from muster.pipeline.facts.schema import EVENTS_LOG, TABLES
from muster.pipeline.schema import columns
from muster.pipeline.tables import by_group

CAME: Final = (kinds.MEMBER_JOINED,)
WENT: Final = (kinds.MEMBER_LEFT, kinds.MEMBER_EXPIRED, kinds.MEMBER_REMOVED)
KINDS: Final = (
    kinds.EPOCH_BUMPED, kinds.TARGET_ASSIGNED, kinds.EPOCH_RECONCILED, kinds.REBALANCE_STARTED,
    kinds.REBALANCE_COMPLETED, *CAME, *WENT,
)  # fmt: skip
"""What is read of them."""
NEAR_MS: Final = 60_000
"""An epoch of the offsets log that begins this near is the same."""
_TRIGGER: Final = ("member", "instance", "client_id", "host")
_NAMES: Final = ("member_id", "instance_id", "client_id", "host")
_NOT_TOLD: Final = ("paused_partition_ms", "took_least_ms", "took_most_ms")
TOLD: Final = pa.schema(
    [
        *(field for field in TABLES["rebalances"] if field.name not in _NOT_TOLD),
        *columns("leader string, is_cooperative boolean"),
    ]
)
"""Columns of the table `rebalances`, and what `rebalances` asks of a row besides."""


def told(events: DataFrame) -> DataFrame:
    """Rows of TOLD, one for each epoch that was raised."""
    rows = events.where(F.col("kind").isin(*KINDS) & F.col("group").isNotNull())
    groups = rows.where(F.col("kind") == kinds.EPOCH_BUMPED).select("group").distinct()
    fields = ("kind", "time_ms", "epoch", "cause", "trigger", "member_count", "moved", "gained", "lost")
    rows = rows.join(groups, "group", "left_semi").select("group", "log_offset", *fields)
    return by_group(rows, "log_offset", rows_of_group, TOLD)


def rows_of_group(group: str, events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of TOLD of one group, from its events in their order."""
    epoch: dict[str, Any] | None = None
    came = went = last_ms = 0
    before: int | None = None
    for one in events:
        kind, last_ms = one["kind"], one["time_ms"]
        if kind in CAME:
            came += 1
        elif kind in WENT:
            went += 1
        elif kind == kinds.EPOCH_BUMPED:
            if epoch is not None:
                yield _ended(epoch, last_ms)
            if before is None:
                before = max(one["member_count"] - came + went, 0)
            epoch = _begun(group, one, before, came, went)
            before, came, went = one["member_count"], 0, 0
        elif kind in (kinds.REBALANCE_STARTED, kinds.REBALANCE_COMPLETED):
            # it is a classic group now
            if epoch is not None:
                yield _ended(epoch, last_ms)
            epoch, before, came, went = None, None, 0, 0
        elif epoch is not None and kind == kinds.TARGET_ASSIGNED and one["epoch"] == epoch["generation"]:
            epoch |= {name: one[name] or 0 for name in ("moved", "gained", "lost")}
        elif epoch is not None and kind == kinds.EPOCH_RECONCILED:
            yield _ended(epoch, last_ms)
            epoch = None
    if epoch is not None:
        yield _ended(epoch, last_ms)


def _begun(group: str, one: Mapping[str, Any], before: int, came: int, went: int) -> dict[str, Any]:
    trigger = one["trigger"] or {}
    who = {f"trigger_{name}": trigger.get(field) for name, field in zip(_NAMES, _TRIGGER, strict=True)}
    return {
        "group": group,
        "generation": one["epoch"],
        "before_generation": one["epoch"] - 1,
        **dict.fromkeys(("start_ms", "start_earliest_ms", "start_latest_ms"), one["time_ms"]),
        "cause": one["cause"],
        **who,
        "reason": trigger.get("reason"),
        "members_before": before,
        "members_after": one["member_count"],
        "members_joined": came,
        "members_left": went,
        "moved": 0,
        "gained": 0,
        "lost": 0,
        "failed_attempts": 0,
        "source": EVENTS_LOG,
        "confidence": 1.0,
    }


def _ended(epoch: dict[str, Any], ms: int) -> dict[str, Any]:
    end_ms = epoch["start_ms"] if not epoch["members_after"] else ms
    return {**epoch, "end_ms": end_ms, "took_ms": end_ms - epoch["start_ms"]}


_EXACT: Final = ("cause", *(f"trigger_{name}" for name in _NAMES), "reason", "source", "confidence")
"""What the events know better."""


def with_told(concluded: DataFrame, exact: DataFrame) -> DataFrame:
    """Rebalances that were concluded from the log, and rows of TOLD: an epoch that both have is one row, what only the
    events have is one too.
    """
    said = exact.select(
        "group",
        "generation",
        F.col("start_ms").alias("told_ms"),
        *(F.col(name).alias(f"told_{name}") for name in _EXACT),
    )
    same = (
        concluded["group"].eqNullSafe(said["group"])
        & (concluded["generation"] == said["generation"])
        & concluded["is_cooperative"].isNull()
        & (F.abs(concluded["start_ms"] - said["told_ms"]) <= NEAR_MS)
    )
    both = concluded.join(said, same, "left")
    is_told = F.col("told_ms").isNotNull()
    columns_of = [
        F.when(is_told, F.col(f"told_{name}")).otherwise(concluded[name]).alias(name)
        if name in _EXACT
        else concluded[name]
        for name in concluded.columns
    ]
    known = both.select(*columns_of)
    logged = concluded.where("is_cooperative is null").select(
        F.col("group").alias("its_group"),
        F.col("generation").alias("its_generation"),
        F.col("start_ms").alias("its_ms"),
    )
    is_logged = (
        (exact["group"] == logged["its_group"])
        & (exact["generation"] == logged["its_generation"])
        & (F.abs(exact["start_ms"] - logged["its_ms"]) <= NEAR_MS)
    )
    return known.unionByName(exact.join(logged, is_logged, "left_anti"), allowMissingColumns=True)
