"""The options of `muster log`, `analyze` and `completion`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from muster.pipeline import arguments

_LOG_EXAMPLES: Final = """\
examples:
  muster log dump muster-data/__consumer_offsets-7          the records of a partition, as JSON lines
  muster log dump 00000000000000000000.log --batches        the batches of one segment
  muster log check muster-data                              is everything as it was written?
  muster log repair muster-data --partition 7               of __consumer_offsets, while no server runs
  muster log repair muster-data --partition orders-0.0123456789abcdef0123456789abcdef-stray
  muster log sample muster-sample                           a day of 50 groups, and what really happened
  muster log sample big --groups 1000 --records 10M         for measures
"""
SHELLS: Final = ("bash", "zsh", "fish")
_COMPLETION_ABOUT: Final = """\
Print a script that completes the words of `muster` in a shell.

  bash   eval "$(muster completion bash)"                                       in ~/.bashrc, or the output as
         muster completion bash > ~/.local/share/bash-completion/completions/muster
  zsh    eval "$(muster completion zsh)"                                        in ~/.zshrc, after compinit
  fish   muster completion fish > ~/.config/fish/completions/muster.fish
"""


def add_log(commands: Any) -> None:
    """Add `log` and its commands to those of `muster`."""
    form = argparse.RawDescriptionHelpFormatter
    log = commands.add_parser(
        "log",
        help="dump, check and repair the log on disk; make a sample",
        description="`muster log`: inspect a data directory, also one of Apache Kafka, "
        "repair it, or make a sample of one. No server is needed.",
        epilog=_LOG_EXAMPLES,
        formatter_class=form,
    )
    verbs = log.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    dump = verbs.add_parser(
        "dump",
        help="print records as JSON lines",
        description="Print the records of a segment, a partition's folder or a data directory (its "
        "__consumer_offsets) as JSON lines: those of __consumer_offsets, __transaction_state and __share_group_state "
        "decoded as Kafka's DumpLogSegments does, keys and values of other topics in base64.",
        epilog=_LOG_EXAMPLES,
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
    dump.set_defaults(run="log.dump:run_dump")
    check = verbs.add_parser(
        "check",
        help="check files, CRCs, offsets and indexes",
        description="Read everything and say what is wrong, with file and position, which folders fit no topic, and "
        "what to do. Changes nothing. Exit status 0: "
        "all is sound, 1: something is damaged, 2: the folder cannot be read.",
        epilog=_LOG_EXAMPLES,
        formatter_class=form,
    )
    check.add_argument("directory", type=Path, metavar="DIR", help="a data directory or a partition's folder")
    check.add_argument("--json", action="store_true", help="what was found as JSON lines")
    check.set_defaults(run="log.check:run_check")
    repair = verbs.add_parser(
        "repair",
        help="make a damaged partition readable again",
        description="Keep every whole batch of a damaged partition, keep each damaged file beside as "
        "NAME.damaged, and say which offsets are lost. A folder that belongs to no topic (orders-0, or "
        "orders-0.0123…-stray as a start has set it aside) is put back in its place, with all others of its topic, and "
        "the topic is made again. Refuses while a server works on the data directory.",
        epilog=_LOG_EXAMPLES,
        formatter_class=form,
    )
    repair.add_argument("directory", type=Path, metavar="DIR", help="the data directory")
    repair.add_argument(
        "--partition", required=True, metavar="TOPIC-N", help="which partition's folder; N alone: of __consumer_offsets"
    )
    repair.set_defaults(run="log.repair:run_repair")
    sample = verbs.add_parser(
        "sample",
        help="make a sample of a group log",
        description="Make a data directory with the log of many groups, as a server would have written it: rebalances "
        "of every cause, crashes, deploys, commits that go backwards or stop. It is made by the server's own code in "
        "virtual time; the same options make the same bytes. DIR/truth.jsonl says what really happened.",
        epilog=_LOG_EXAMPLES,
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
    sample.set_defaults(run="log.sample:run_sample")


def add_analyze(commands: Any) -> None:
    """Add `analyze` to the commands of `muster`."""
    parser = commands.add_parser(
        "analyze",
        help="show from a group log what the groups did, and what they would have done (needs Spark)",
        description=arguments.ABOUT,
        epilog=arguments.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_options(parser)
    parser.add_argument(
        "--command-config", type=Path, metavar="FILE", help="a client.properties as Kafka's tools have it: TLS, SASL"
    )
    parser.set_defaults(run="analyze:run")


def add_completion(commands: Any) -> None:
    """Add `completion` to the commands of `muster`."""
    parser = commands.add_parser(
        "completion",
        help="a script that completes words in bash, zsh or fish",
        description=_COMPLETION_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run="completion:run")
