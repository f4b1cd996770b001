"""Writes results.md: the figures of all servers side by side, and the goals."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench import consumer_memory
from bench.consumer_groups import LESS, MORE, SETTLE
from bench.memory import LOAD
from bench.scenarios import (
    BY_THE_CLOCK,
    COLD,
    FETCH_LARGE,
    FETCH_SMALL,
    IN_KERNEL,
    PRODUCE_LARGE,
    PRODUCE_SMALL,
    REPEATED,
    UNCACHED,
    VARIED,
)
from bench.security import BEAT, READY
from bench.transactions import NAMES as TRANSACTIONS
from bench.transactions import READS, WHERE

HEAD = f"""\
medians of {{rounds}} rounds in which the servers took turns, of 9 starts, of 5 loads and compactions, and of 9 runs of
the codec. Memory of members and offsets was measured once. CPU time is the server's own, user and system, from /proc.
"{BY_THE_CLOCK}" is the wall time of each request while others were under way. On a shared machine it is only a hint.
"Kernel" is the part of Muster's CPU time in the kernel: sockets, files, and threads that wait for each other.
"Bare" is a server that answers every frame with the same bytes, on the same event loop: no server can need less.
Synced commits are Muster's default. Kafka acknowledges from the page cache in both rows. Muster caches repeated
requests. "{REPEATED}": as a member's heartbeats, and a consumer's commits of the same partitions.
"{VARIED}": each connection sends two requests in turn, and both are cached.
"{UNCACHED}": the same requests on a server that caches none. Counting
begins after each connection's first requests, except for "{COLD}"."""
"""The description of the figures at the beginning of results.md."""

RESULTS = Path(__file__).with_name("results.md")

RATIOS = {
    f"heartbeat, {REPEATED}, 100 connections, us": 0.38,
    f"heartbeat, {VARIED}, 100 connections, us": 0.45,
    f"heartbeat, {REPEATED}, 1000 connections, us": 0.42,
    f"heartbeat, {VARIED}, 1000 connections, us": 0.6,
    f"consumer group heartbeat, {REPEATED}, 100 connections, us": 0.38,
    f"consumer group heartbeat, {REPEATED}, 1000 connections, us": 0.42,
    f"commit, page cache, {REPEATED}, 100 connections, us": 0.4,
    f"commit, page cache, {VARIED}, 100 connections, us": 0.6,
    f"commit, synced, {REPEATED}, 100 connections, us": 0.5,
    f"commit, synced, {VARIED}, 100 connections, us": 0.9,
    **{
        f"commit, {where}, {comes}, 1000 connections, us": share
        for where, share in (("page cache", 0.5), ("synced", 0.9))
        for comes in (REPEATED, VARIED)
    },
    **{
        f"{name}, {where}, us": share
        for name in TRANSACTIONS.values()
        for where, share in zip(WHERE, (0.9, 1.0), strict=True)
    },
    f"{PRODUCE_SMALL}, us": 0.8,
    f"{PRODUCE_LARGE}, us per MB": 1.0,
    f"{FETCH_SMALL}, us": 0.8,
    f"{FETCH_LARGE}, us per MB": 1.0,
    LOAD: 1.0,
    BEAT: 0.25,
    READY: 1.0,
    f"{SETTLE}, CPU ms": 0.6,
    f"{SETTLE}, wall ms": 0.6,
    "1,000 members settle on a fresh server, CPU ms": 0.2,
    "1,000 members settle, CPU ms": 0.25,
    f"{MORE}, CPU ms": 1.5,
    f"{LESS}, CPU ms": 1.5,
}
"""Goals as shares of Kafka's figures."""
SETTLING = (
    "The goal of settling is beside a Kafka that has just started: the row of fresh servers. In the other row the JVM\n"
    "has compiled what groups need."
)
LIMITS = {
    "JoinGroup answer of 1,000 members, encode, us": 300.0,
    "start-up, spawn to ready, ms": 250.0,
    "start-up, CPU ms": 200.0,
    "resident memory when ready, MB": 40.0,
    f"{FETCH_LARGE}, us per MB": 1e6 / 1500,  # 1,500 MB in each second of CPU time
    f"{FETCH_SMALL}, us": 40.0,
    "memory of a member, one of 100,000, bytes": 600.0,
    consumer_memory.ALONE: 900.0,
    "memory of a committed offset, one of 1,000,000, bytes": 260.0,
    "what events add to a rebalance, % of its CPU": 10.0,
    "load of 100,000 transactional ids, CPU ms": 2_000.0,
    "memory of a transactional id, one of 100,000, bytes": 600.0,
    **{f"{name}, read_committed, x read_uncommitted": 1.05 for name in READS},
}
"""Goals that are a fixed limit."""
AT_LEAST = {
    "load of commits, one by one, records/s of one core": 350_000.0,
    "load of commits, 10 in a batch, records/s of one core": 350_000.0,
    "compaction of commits, one by one, MB/s of one core": 100.0,
    "compaction of commits, 10 in a batch, MB/s of one core": 100.0,
}
"""Goals for figures where more is better."""


WHY: Final = {
    "heartbeat over TLS": "the kernel and OpenSSL alone take as much (bench/where.md)",
    "heartbeat": "two thirds or more are the kernel's: compare the columns kernel and bare",
    "^commit": "two fifths or more are the kernel's; with 1,000 connections each record finds cold caches "
    "(bench/where.md)",
    "^a transaction": "it takes 22,400 instructions of Python, and no phase has a quarter of them (bench/phases.md)",
    "transaction version 1": "as above, with as many records, and two requests more",
    "no transactions aborted": "both reads do the same work then; this ratio differs by a tenth from run to run",
    "read_committed": "an answer lists the aborted transactions; Kafka pays more for them",
    f"^{FETCH_LARGE}": "four fifths are the kernel's: the copy into the socket, and TCP (docs/dev/decisions.md)",
    f"^{FETCH_SMALL}": "two fifths are the kernel's, the rest is decoding, finding and answering (bench/phases.md)",
    f"^{PRODUCE_SMALL}": "each record is checked and written by itself (bench/phases.md)",
    "^load of 1,000,000": "the checksum, the key and the value of each record are read, in 1.1 us",
    "^1,000 members settle, CPU": "see below",
    "^1,000 members settle on a fresh server, CPU": "it is measured once in a run: it was 0.14 in the run before",
    f"^{MORE}": "heartbeats of the other members are answered meanwhile, and the target is computed in Python",
    f"^{SETTLE}": "each join is some three records, which are made in Python",
    "^consumer group: memory": "it was 877 before; nobody has looked for the cause",
    "^start-up": "four fifths are imports, a third of them asyncio, ssl and structlog",
    "^resident memory when ready": "Python with asyncio, ssl and structlog has 20 MB",
    "^what events add": "each event is a record of JSON; without them nobody knows why a group rebalanced",
    "^compaction of commits, one by one": "each batch of one record is read and checked by itself",
}
"""Why a goal is not reached, by a pattern of the figure's name. The first one that fits is shown."""
BESIDE_KFAKE: Final = (
    "Some three quarters of Muster's heartbeat are the kernel's (see above), which alone is as much as the goal."
)


def write(
    medians: Mapping[str, Mapping[str, float]], rounds: int, notes: list[str], codec: str, beside_kfake: list[str]
) -> str:
    """Write results.md, and return its text. `medians`: figure -> server -> median. `beside_kfake`: a table."""
    lines = [
        "# What the server costs",
        "",
        f"Written by `make bench`: {platform.python_implementation()} {platform.python_version()}, "
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end;",
        *HEAD.format(rounds=rounds).splitlines(),
        *notes,
        "",
        "| figure | Muster | Kafka | Muster / Kafka | kernel, % | bare |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, by_server in medians.items():
        if f", {IN_KERNEL}, " in name:
            continue  # the column of another row
        ours, theirs = by_server.get("muster"), by_server.get("kafka")
        ratio = f"{ours / theirs:.2f}" if ours is not None and theirs else ""
        bare = number(by_server.get("bare"))
        lines.append(
            f"| {name} | {number(ours)} | {number(theirs)} | {ratio} | {_kernel_share(name, medians)} | {bare} |"
        )
    lines += ["", "## Figures to reach", "", "| figure | to reach | measured | |", "|---|---:|---:|---|"]
    lines += [verdict(name, share, medians, "x Kafka") for name, share in RATIOS.items()]
    lines += [verdict(name, limit, medians, "") for name, limit in LIMITS.items()]
    lines += [verdict(name, least, medians, "", at_least=True) for name, least in AT_LEAST.items()]
    lines += ["", SETTLING, ""]
    if beside_kfake:
        lines += ["## Beside kfake", "", *beside_kfake, "", BESIDE_KFAKE, ""]
    lines += ["## Codec", "", "```", codec.rstrip(), "```", ""]
    text = "\n".join(lines)
    RESULTS.write_text(text)
    return text


def _kernel_share(name: str, medians: Mapping[str, Mapping[str, float]]) -> str:
    """How much of Muster's figure is in the kernel, in percent; an empty text when it was not measured."""
    request, _, unit = name.rpartition(", ")
    part, whole = medians.get(f"{request}, {IN_KERNEL}, {unit}", {}).get("muster"), medians[name].get("muster")
    return "" if part is None or not whole else f"{part / whole * 100:.0f}"


def verdict(
    name: str, goal: float, medians: Mapping[str, Mapping[str, float]], unit: str, *, at_least: bool = False
) -> str:
    """A row of the table of goals."""
    sign = "≥" if at_least else "≤"
    by_server = medians.get(name, {})
    measured = by_server.get("muster")
    if unit and measured is not None:
        measured = measured / by_server["kafka"] if "kafka" in by_server else None
    if measured is None:
        return f"| {name} | {sign} {number(goal)} {unit} | | not measured |"
    reached = measured >= goal if at_least else measured <= goal
    verdict = "yes" if reached else f"**no**{_why(name)}"
    return f"| {name} | {sign} {number(goal)} {unit} | {number(measured)} {unit} | {verdict} |"


def _why(name: str) -> str:
    return next((f": {why}" for pattern, why in WHY.items() if re.search(pattern, name)), "")


def number(value: float | None) -> str:
    """Format a number with about three significant digits; None becomes an empty text."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 3 else f"{value:.2f}"
