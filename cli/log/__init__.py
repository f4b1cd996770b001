"""`muster log`: inspect a data directory, also one of Apache Kafka, repair it, or make a sample of one. No server is
needed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

EXAMPLES = """\
examples:
  muster log dump muster-data/__consumer_offsets-7          the records of a partition, as JSON lines
  muster log dump 00000000000000000000.log --batches        the batches of one segment
  muster log check muster-data                              is everything as it was written?
  muster log repair muster-data --partition 7               of __consumer_offsets, while no server runs
  muster log repair muster-data --partition orders-0.0123456789abcdef0123456789abcdef-stray
  muster log sample muster-sample                           a day of 50 groups, and what really happened
  muster log sample big --groups 1000 --records 10M         for measures
"""


def add_parser(commands: Any) -> None:
    """Add `log` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    log = commands.add_parser(
        "log",
        help="dump, check and repair the log on disk; make a sample",
        description=" ".join(__doc__.split()),
        epilog=EXAMPLES,
        formatter_class=form,
    )
    verbs = log.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    dump = verbs.add_parser(
        "dump",
        help="print records as JSON lines",
        description="Print the records of a segment, a partition's folder or a data directory (its "
        "__consumer_offsets) as JSON lines: those of __consumer_offsets, __transaction_state and __share_group_state "
        "decoded as Kafka's DumpLogSegments does, keys and values of other topics in base64.",
        epilog=EXAMPLES,
        formatter_class=form,
    )
    dump.add_argument(
        "path",
        type=Path,
        metavar="PATH",
        help="a file (.log, .txnindex, .snapshot), a partition's folder or a data directory",
    )
    dump.add_argument("--jsonl", action="store_true", help="JSON lines; this is the only form, said or not")
    dump.add_argument("--batches", action="store_true", help="one line for each batch instead of each record")
    check = verbs.add_parser(
        "check",
        help="check files, CRCs, offsets and indexes",
        description="Read everything and say what is wrong, with file and position, which folders fit no topic, and "
        "what to do. Changes nothing. Exit status 0: "
        "all is sound, 1: something is damaged, 2: the folder cannot be read.",
        epilog=EXAMPLES,
        formatter_class=form,
    )
    check.add_argument("directory", type=Path, metavar="DIR", help="a data directory or a partition's folder")
    check.add_argument("--json", action="store_true", help="what was found as JSON lines")
    repair = verbs.add_parser(
        "repair",
        help="make a damaged partition readable again",
        description="Keep every whole batch of a damaged partition, keep each damaged file beside as "
        "NAME.damaged, and say which offsets are lost. A folder that belongs to no topic (orders-0, or "
        "orders-0.0123…-stray as a start has set it aside) is put back in its place, with all others of its topic, and "
        "the topic is made again. Refuses while a server works on the data directory.",
        epilog=EXAMPLES,
        formatter_class=form,
    )
    repair.add_argument("directory", type=Path, metavar="DIR", help="the data directory")
    repair.add_argument(
        "--partition", required=True, metavar="TOPIC-N", help="which partition's folder; N alone: of __consumer_offsets"
    )
    sample = verbs.add_parser(
        "sample",
        help="make a sample of a group log",
        description="Make a data directory with the log of many groups, as a server would have written it: rebalances "
        "of every cause, crashes, deploys, commits that go backwards or stop. It is made by the server's own code in "
        "virtual time; the same options make the same bytes. DIR/truth.jsonl tells what really happened.",
        epilog=EXAMPLES,
        formatter_class=form,
    )
    sample.add_argument("directory", type=Path, metavar="DIR", help="empty, or not there yet")
    sample.add_argument("--groups", type=int, default=50, metavar="N", help="how many groups (default: 50)")
    sample.add_argument("--hours", type=float, default=24, metavar="N", help="how long it lasts (default: 24)")
    sample.add_argument("--seed", type=int, default=1, metavar="N", help="another seed is another day (default: 1)")
    sample.add_argument(
        "--records", metavar="N", help="about how many commits: 100000, 0.1M, 10M (default: 160 a group and hour)"
    )
    sample.add_argument(
        "--end", metavar="TIME", help="when it ends: 2026-01-31T12:00 (UTC) or now (default: a fixed day)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit status."""
    from muster.cli.output import printing

    return printing(f"muster log {options.verb}", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.verb == "dump":
        from muster.cli.log.dump import dump

        return dump(options.path, batches_only=options.batches)
    if options.verb == "check":
        from muster.cli.log.check import check

        return check(options.directory, as_json=options.json)
    if options.verb == "sample":
        from muster.cli.log.sample import sample

        return sample(
            options.directory,
            groups=options.groups,
            hours=options.hours,
            seed=options.seed,
            records=options.records,
            end=options.end,
        )
    from muster.cli.log.repair import repair

    return repair(options.directory, options.partition)
