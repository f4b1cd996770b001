"""The options of `muster log`, `analyze` and `completion`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from muster.cli.parser import add_commands, add_options
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


_LOG: Final = """
dump  log.dump:run_dump  print records as JSON lines
    | Print the records of a segment, a partition's folder or a data directory (its __consumer_offsets) as JSON lines:
    | those of __consumer_offsets, __transaction_state and __share_group_state decoded as Kafka's DumpLogSegments does,
    | keys and values of other topics in base64.
    path PATH  a file (.log, .txnindex, .snapshot), a partition's folder or a data directory
    --jsonl  print JSON lines, which is the only form
    --batches  one line for each batch instead of each record
check  log.check:run_check  check files, CRCs, offsets and indexes
    | Read everything and say what is wrong, with file and position, which folders fit no topic, and what to do. Changes
    | nothing. Exit status 0: all is sound, 1: something is damaged, 2: the folder cannot be read.
    directory DIR  a data directory or a partition's folder
    --json  print the findings as JSON lines
repair  log.repair:run_repair  make a damaged partition readable again
    | Keep every whole batch of a damaged partition, keep each damaged file beside as NAME.damaged, and say which
    | offsets are lost. A folder that belongs to no topic (orders-0, or orders-0.0123…-stray as a start has set it
    | aside) is put back in its place, with all others of its topic, and the topic is made again. Refuses while a server
    | works on the data directory.
    directory DIR  the data directory
    --partition TOPIC-N  which partition's folder; N alone: of __consumer_offsets
sample  log.sample:run_sample  make a sample of a group log
    | Make a data directory with the log of many groups, as a server would have written it: rebalances of every cause,
    | crashes, deploys, commits that go backwards or stop. It is made by the server's own code in virtual time; the same
    | options make the same bytes. DIR/truth.jsonl says what really happened.
    directory DIR  empty, or not there yet
    --groups N  how many groups, besides one with transactions (default: 50)
    --hours N  how many hours of log (default: 24)
    --seed N  another seed makes another sample (default: 1)
    --records N  about how many commits: 100000, 0.1M, 10M (default: 160 a group and hour)
    --end TIME  the end of the log: 2026-01-31T12:00 (UTC) or now (default: a fixed day)
"""


_BACKUP: Final = """
backup  backup.command:run_backup  copy a data directory as it is at one moment, while the server serves
    | Make a backup of a data directory in the new folder DIR, and check it as muster log check does. While a server
    | works on it, its HTTP door says where all logs end at one moment. A start with the backup checks each batch.
    directory DIR  the new folder
    --data-dir DIR  the data directory (default: ./muster-data)
    --http ADDRESS  the HTTP door of the server that works on it: HOST:PORT, http://HOST:PORT or https://HOST:PORT
    --http-token FILE  the file with the token of the door
    --http-ca FILE  the certificates that the door's certificate is checked with; the door has TLS
restore  backup.command:run_restore  make a data directory of a backup
    | Check a backup, and copy it into a new or empty data directory. Nothing is overwritten.
    directory DIR  the backup
    --data-dir DIR  the new data directory (default: ./muster-data)
"""


def add_backup(commands: Any) -> None:
    """Add `backup` and `restore` to the parser."""
    add_commands(commands, _BACKUP, {"data_dir": {"default": Path("muster-data")}})


def add_log(commands: Any) -> None:
    """Add `log` and its subcommands to the parser."""
    about = "`muster log`: inspect a data directory, also one of Apache Kafka, repair it, or make a sample of one. "
    about += "No server is needed."
    line = "log  -  dump, check and repair the log on disk; make a sample"
    log = add_commands(commands, line, description=about, epilog=_LOG_EXAMPLES)["log"]
    how = {
        "partition": {"required": True},
        "groups": {"type": int, "default": 50},
        "hours": {"type": float, "default": 24},
        "seed": {"type": int, "default": 1},
    }
    verbs = log.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    add_commands(verbs, _LOG, how, epilog=_LOG_EXAMPLES)


def add_analyze(commands: Any) -> None:
    """Add `analyze` to the parser."""
    line = "analyze  analyze:run  show from a group log what the groups did, and what they would have done "
    line += "(all but small logs need Spark)"
    parser = add_commands(commands, line, description=arguments.ABOUT, epilog=arguments.EXAMPLES)["analyze"]
    arguments.add_options(parser)
    add_options(parser, "--command-config FILE  a client.properties as Kafka's tools have it: TLS, SASL")


def add_completion(commands: Any) -> None:
    """Add `completion` to the parser."""
    parser = commands.add_parser(
        "completion",
        help="a script that completes words in bash, zsh or fish",
        description=_COMPLETION_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run="completion:run")
