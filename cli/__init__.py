"""The `muster` command. `main` returns the exit status: 0, 1 for a failure, 2 for a wrong command line."""

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
from muster.version import VERSION

if TYPE_CHECKING:  # `lazy` loads these modules, and import-linter sees them here
    from muster.cli import analyze, cluster, completion, health, nodes, serve, under_test  # noqa: F401
    from muster.cli.groups import delete_groups, offsets, read_groups, reset_offsets, show_groups  # noqa: F401
    from muster.cli.local_cluster import command  # noqa: F401
    from muster.cli.log import check, dump, repair, sample  # noqa: F401
    from muster.cli.transactions import hanging, show  # noqa: F401


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; `arguments` are those after the program's name, None for the process's own."""
    if arguments is None:
        # before any other import: otherwise a file json.py of the user could be imported
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
    # imported here: a server and its health check print one line, and need none of this
    from muster.cli.output import printing

    return printing(f"muster {options.command}", lambda: _run(options))


def _print_version() -> int:
    try:
        print(f"muster {VERSION}", flush=True)
    except BrokenPipeError:
        # otherwise the interpreter would write it again at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _run(options: argparse.Namespace) -> int:
    if options.command == "serve":
        # Until the server serves (`memory.limit_collections`), a collection finds nothing. A walk through all imported
        # objects takes a twentieth of a start.
        gc.disable()
    try:
        module, function = options.run.split(":")
        run: Callable[[argparse.Namespace], int] = lazy(f"muster.cli.{module}", function)
        return run(options)
    finally:
        gc.enable()
