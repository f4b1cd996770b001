"""The `muster` command. The exit status is 0 for success, 1 for a failure, 2 for a wrong command line."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from muster.cli.options import QUICK, build_parser
from muster.coordinator.system.lazy_import import lazy
from muster.pipeline.safe_path import leave_current_folder
from muster.version import description

if TYPE_CHECKING:  # `lazy` loads these modules, and import-linter sees them here
    from muster.cli import (  # noqa: F401  # for `lazy`
        analyze,
        clients,
        cluster,
        completion,
        conform,
        exporter,
        health,
        lint,
        nodes,
        serve,
        under_test,
    )
    from muster.cli.backup import command as backup_command  # noqa: F401  # for `lazy`
    from muster.cli.console import command as _  # noqa: F401  # for `lazy`
    from muster.cli.groups import delete_groups, explain, offsets, read_groups, reset_offsets, show_groups  # noqa: F401  # for `lazy`
    from muster.cli.local_cluster import command  # noqa: F401  # for `lazy`
    from muster.cli.log import check, dump, repair, sample  # noqa: F401  # for `lazy`
    from muster.cli.top import command as top_command  # noqa: F401  # for `lazy`
    from muster.cli.transactions import hanging, show  # noqa: F401  # for `lazy`


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. `arguments` stand after the program's name; None: the arguments of this process."""
    if arguments is None:
        # before any other import: otherwise Python could import a file json.py from the user's folder
        leave_current_folder()
    given = sys.argv[1:] if arguments is None else arguments
    parser = build_parser(given[0] if given else None)
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    if options.command == "version":
        return _print_version()
    if options.command in QUICK and not getattr(options, "check", False):
        return _run(options)
    # a server and its health check print only one line, and do not need this import
    from muster.cli.output import printing

    return printing(f"muster {options.command}", lambda: _run(options))


def _print_version() -> int:
    try:
        print(description(), flush=True)
    except BrokenPipeError:
        # otherwise the interpreter would try to write the line again when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _run(options: argparse.Namespace) -> int:
    if options.command == "serve":
        # Before the server is ready (`memory.limit_collections`), a garbage collection finds no garbage. It would walk
        # through all imported objects, which takes 5 % of the start.
        gc.disable()
    try:
        module, function = options.run.split(":")
        run: Callable[[argparse.Namespace], int] = lazy(f"muster.cli.{module}", function)
        return run(options)
    finally:
        gc.enable()
