"""What the page tells of the what-if, from its tables: sums by setting, answers of few settings, what is withheld."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.report.content import Row, Some
from muster.pipeline.report.selecting import (
    Batches,
    Tables,
    down,
    grouped,
    in_order,
    mean,
    plain_rows,
    some_of,
    up,
    where,
    with_columns,
)  # fmt: skip

SETTINGS: Final = 200
"""Settings, and groups in their answers."""
FEW_SETTINGS: Final = 3
"""If no more were asked for, each is answered group by group."""
_KINDS: Final = ("", "actual_")
_FIGURES: Final = ("rebalances", "moved_partitions", "paused_partition_s", "silent_partition_s", "unread_partition_s")


def what_if(tables: Tables, settings: int) -> dict[str, Any]:
    """`grid`, `advice`, `answers`, `fidelity` and `withheld` of `Chosen`."""
    if "whatif" not in tables:
        return {"grid": [], "advice": Some()}
    fidelity = tables["fidelity"]
    every = fidelity.schema.names
    judged = grouped(
        with_columns(fidelity.batches(*every), told=lambda batch: pc.cast(batch["withheld"], pa.int64())),
        ["source"], groups=("group", "count"), generations=("generations", "sum"), reproduced=("reproduced", "sum"),
        withheld=("told", "sum"),
    )  # fmt: skip
    return {
        "grid": _grid(tables),
        "advice": some_of(tables["advice"].batches(*tables["advice"].schema.names),
                          down("gain_s"), down("spared"), up("group")),
        "answers": _answers(tables) if 0 < settings <= FEW_SETTINGS else Some(),
        "fidelity": plain_rows(judged.take(in_order(judged, (up("source"),)))) if judged.num_rows else [],
        "withheld": some_of(
            where(fidelity.batches(*every), lambda batch: batch["withheld"]), down("generations"), up("group")
        ),
    }  # fmt: skip


def _grid(tables: Tables) -> list[Row]:
    rows = tables["whatif"]
    # sums over groups for which all settings could be played: otherwise they cannot be compared
    counted = grouped(rows.batches("group", "setting", "rebalances"), ["group"],
                      asked=("setting", "count"), played=("rebalances", "count"))  # fmt: skip
    if not counted.num_rows:
        return []
    whole = counted.filter(pc.equal(counted["asked"], counted["played"]))["group"].combine_chunks()
    played = where(rows.batches(*rows.schema.names), lambda batch: pc.is_in(batch["group"], whole))
    # a setting with less pause may have more silence: the partition is not read in either
    with_unread = with_columns(played, unread_partition_s=_unread(""), actual_unread_partition_s=_unread("actual_"))
    changed = with_columns(
        with_unread,
        fewer=_counts(pc.less, "rebalances"),
        more=_counts(pc.greater, "rebalances"),
        less=_counts(pc.less, "unread_partition_s"),
        longer=_counts(pc.greater, "unread_partition_s"),
    )
    sums = {name: (name, "sum") for name in (*(kind + name for kind in _KINDS for name in _FIGURES),
                                             *("fewer", "more", "less", "longer"))}  # fmt: skip
    detects = {
        f"{kind}{name}": (f"{kind}detect_ms", how)
        for kind in _KINDS
        for name, how in (("detect_ms", "sum"), ("detects", "count"))
    }
    by_setting = grouped(changed, ["setting", "settings_json"], groups=("group", "count"), **sums, **detects)
    if not by_setting.num_rows:
        return []
    order = (up("unread_partition_s"), up("rebalances"), up("setting"))
    found = plain_rows(by_setting.take(in_order(by_setting, order)[:SETTINGS]))
    return [
        row | {f"{kind}detect_ms": mean(row[f"{kind}detect_ms"], row[f"{kind}detects"]) for kind in _KINDS}
        for row in found
    ]


def _unread(kind: str) -> Callable[[pa.RecordBatch], Any]:
    return lambda batch: pc.add(batch[f"{kind}paused_partition_s"], batch[f"{kind}silent_partition_s"])


def _counts(compare: Callable[[Any, Any], Any], name: str) -> Callable[[pa.RecordBatch], Any]:
    return lambda batch: pc.cast(pc.fill_null(compare(batch[name], batch[f"actual_{name}"]), False), pa.int64())


def _answers(tables: Tables) -> Some:
    rows = tables["whatif"]
    spared: Batches = with_columns(
        rows.batches(*rows.schema.names),
        gain_s=lambda batch: pc.subtract(_unread("actual_")(batch), _unread("")(batch)),
        spared=lambda batch: pc.subtract(batch["actual_rebalances"], batch["rebalances"]),
    )
    return some_of(spared, down("gain_s"), down("spared"), up("group"), up("setting"), limit=SETTINGS)
