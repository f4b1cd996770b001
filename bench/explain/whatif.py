"""Measures the what-if of a thousand groups under twenty settings: time, memory, and how exact its results are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from bench.explain.row import Row, at_least, at_most, plain
from bench.explain.spark import CORES, SparkMeter
from muster.pipeline.schema import CLASSIC_GROUP
from muster.pipeline.sources.frame import decoded_rows
from muster.pipeline.tables.inputs import EVENTS_TOPIC, Inputs, events
from muster.pipeline.whatif.job import what_if
from muster.pipeline.whatif.settings import DEFAULT_GRID

GROUPS: Final = 1_000


def thousand(_: Path, folder: Path) -> list[Row]:
    """Make a sample of a day of a thousand groups. It has few commits, since the what-if does not read commits."""
    log = folder / "sample"
    muster = Path(sys.executable).parent / "muster"
    command: list[str | Path] = [muster, "log", "sample", log, "--groups", str(GROUPS), "--records", "100000"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    meter = SparkMeter(folder)
    inputs = _staged(meter, log, folder)
    with meter.memory() as peaks:
        played = _play(meter, inputs, folder / "played")
        memory = peaks()
    logged = _play(meter, Inputs(inputs.decoded), folder / "logged")
    return [
        at_most(
            f"what-if of {GROUPS:,} groups x {len(DEFAULT_GRID)} settings, s on {CORES} cores (CPU s / {CORES})",
            played["cpu_s"] / CORES,
            60,
        ),
        plain("  by the clock, s", played["wall_s"]),
        plain("  rebalances in them", played["generations"]),
        plain("  ms of CPU for each replay", played["cpu_s"] * 1000 / GROUPS / len(DEFAULT_GRID)),
        at_least("  generations that come out as they were, from __group_events, %", 100 * played["share"], 99),
        at_least("  the same from the offsets log alone, %", 100 * logged["share"], 90),
        plain("  groups whose what-if is withheld, of consumers", played["withheld"]),
        at_most("  driver and JVM, peak, MiB", memory.driver_and_jvm, 2_048),
        at_most("  the largest worker, peak, MiB", memory.worker, 350),
    ]


def _staged(meter: SparkMeter, log: Path, folder: Path) -> Inputs:
    """Write the decoded rows and events as Parquet, as `muster analyze` does before the what-if."""
    read = meter.spark.read
    raw = read.format("muster").load(str(log))
    decoded_rows(raw).where(f"kind = '{CLASSIC_GROUP}'").write.parquet(str(folder / "classic"))
    events(read.format("muster").option("topic", EVENTS_TOPIC).load(str(log))).write.parquet(str(folder / "events"))
    return Inputs(read.parquet(str(folder / "classic")), read.parquet(str(folder / "events")))


def _play(meter: SparkMeter, inputs: Inputs, target: Path) -> dict[str, Any]:
    tables = what_if(inputs, DEFAULT_GRID)

    def write() -> None:
        for name, rows in tables.items():
            rows.write.parquet(str(target / name))

    cost = meter.measure(write)
    fidelity = meter.spark.read.parquet(str(target / "fidelity"))
    sums = fidelity.selectExpr(
        "sum(generations) as generations",
        "sum(reproduced) as reproduced",
        "count_if(withheld and generations > 0) as withheld",
    ).collect()[0]
    return {
        "cpu_s": cost.cpu_s,
        "wall_s": cost.wall_s,
        "generations": sums.generations,
        "share": sums.reproduced / sums.generations,
        "withheld": sums.withheld,
    }
