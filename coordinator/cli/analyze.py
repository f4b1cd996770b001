"""`muster analyze`: the data pipeline over a group log. Needs Spark, which is imported only for this command."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from muster.pipeline import arguments

PROG = "muster analyze"
EXTRA = "pip install 'muster-kafka[spark]'"


def add_parser(commands: Any) -> None:
    """Add `analyze` to the commands of `muster`."""
    parser = commands.add_parser(
        "analyze",
        help="tell from a group log what the groups did, and what they would have done (needs Spark)",
        description=arguments.ABOUT,
        epilog=arguments.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run what was asked for; the exit status."""
    try:
        arguments.read(options)  # before Spark is waited for
    except arguments.BadArgument as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return 2
    try:
        from muster.pipeline.analyze import analyze
    except ImportError as error:
        print(f"{PROG}: it needs Spark, and {error.name or error} is not there: {EXTRA}", file=sys.stderr)
        return 1
    return analyze(options, PROG)
