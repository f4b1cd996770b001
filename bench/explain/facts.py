"""Measures all tables of facts. As in `muster analyze`, each table is written once, from the staged log."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from bench.explain.row import Row, at_most, plain
from bench.explain.spark import CORES, Measured, SparkMeter
from muster.pipeline.frames.spark import planned_once
from muster.pipeline.stage import Source, Staged, stage
from muster.pipeline.tables.build import build

SLOWEST: Final = 5
"""How many tables, the slowest ones, have a row of their own in the result."""


def all_tables(log: Path, folder: Path) -> list[Row]:
    """Measure the first step of an analysis (reading the log), then all tables.

    All tables are written twice: with a Java that has just started, as in `muster analyze`, and with a warm one.
    """
    meter, source = SparkMeter(folder), Source(path=str(log))
    staged: list[Staged] = []

    def read(target: Path) -> None:
        staged.append(stage(meter.spark, source, str(target)))

    _, reading = (meter.measure(partial(read, folder / name)) for name in ("stage-1", "stage-2"))
    with meter.memory() as peaks:
        cold, warm = _write(meter, staged[0], folder / "cold"), _write(meter, staged[1], folder / "warm")
        memory = peaks()
    rows = sum(staged[0].rows.values())
    first, second = _sum(cold), _sum(warm)
    slowest = sorted(warm, key=lambda name: -warm[name].cpu_s)[:SLOWEST]
    return [
        plain("rows of the offsets log", rows),
        plain("reading and decoding them, with events and ends, CPU s", reading.cpu_s),
        at_most(f"all tables of facts, s on {CORES} cores (CPU s / {CORES})", second.cpu_s / CORES, 25),
        plain("  by the clock, s", second.wall_s),
        at_most(f"  in a JVM that has just started, CPU s / {CORES}", first.cpu_s / CORES, 35),
        plain("  the same by the clock, s", first.wall_s),
        *(plain(f"  of the CPU s, `{name}`", warm[name].cpu_s) for name in slowest),
        at_most("  driver and JVM, peak, MiB", memory.driver_and_jvm, 2_048),
        at_most("  the largest worker, peak, MiB", memory.worker, 350),
    ]


def _write(meter: SparkMeter, staged: Staged, target: Path) -> dict[str, Measured]:
    """The cost of each table. What several tables need counts for the first of them. Planning is counted separately."""
    tables: dict[str, DataFrame] = {}
    planning = meter.measure(lambda: tables.update(build(staged.inputs)))
    spent = {}
    with planned_once(meter.spark):
        for name, rows in tables.items():
            spent[name] = meter.measure(partial(rows.write.parquet, str(target / name)))
    meter.spark.catalog.clearCache()
    return {"(the plans)": planning, **spent}


def _sum(parts: dict[str, Measured]) -> Measured:
    return Measured(sum(part.cpu_s for part in parts.values()), sum(part.wall_s for part in parts.values()))
