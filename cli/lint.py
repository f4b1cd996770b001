"""`muster lint` runs a server that checks its clients, and with --rehearse plays the moments in which they go wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli.output import fail
from muster.cli.running_server import check_new_file
from muster.coordinator import server
from muster.coordinator.config import Config, ConfigError, load
from muster.coordinator.config.listeners import show
from muster.coordinator.system.logging import output
from muster.coordinator.system.logging.writer import LineWriter, writer

if TYPE_CHECKING:
    from muster.clientlint.report import Report


def run(options: argparse.Namespace) -> int:
    """Run the server. Exit status 1: a client surely breaks a rule, so that it loses records or members."""
    from muster.clientlint.moments import MOMENTS

    unknown = [name for name in options.moment if name not in MOMENTS]
    if unknown:
        return fail("muster lint", f"there is no moment {unknown[0]}; there are {', '.join(MOMENTS)}", 2)
    try:
        check_new_file("--report", options.report)
        config = _config(options)
    except ConfigError as error:
        return fail("muster lint", error, 2)
    log = output.configure(options.log_level or "warning")
    stdout = LineWriter(writer(sys.stdout))
    try:
        found = serve(config, stdout, options.moment or [*MOMENTS], rehearse=options.rehearse or bool(options.moment))
    except OSError as error:
        # this import is needed only after a failure
        from muster.cli.serve_messages import start_failure

        return fail("muster lint", start_failure(error, config))
    finally:
        stdout.close()
        log.close()
    return 1 if found is None or found.breaks else 0


def listen(at: str, report: Path | None) -> int:
    """`muster conform --listen`: as `muster lint` at this port, or at this HOST:PORT."""
    address = at if ":" in at else f"localhost:{at}"
    given = {"listen": address, "report": report, "rehearse": False, "nodes": None, "log_level": None}
    return run(argparse.Namespace(moment=[], topic=[], override=[], **given))


def serve(config: Config, stdout: LineWriter, moments: list[str], *, rehearse: bool) -> Report | None:
    """Run a server until a signal arrives or the rehearsal ends. None: it was interrupted before."""
    from muster.clientlint.moments import MOMENTS
    from muster.clientlint.serving import rehearsing, serving

    reports: list[Report] = []
    serve_it = (
        rehearsing(stdout.put, [MOMENTS[name] for name in moments], reports.append)
        if rehearse
        else serving(stdout.put, done=reports.append)
    )
    server.run(config, lambda host, port: stdout.put(f"muster ready {show(host, port)}"), serve_it)
    return reports[-1] if reports else None


def _config(options: argparse.Namespace) -> Config:
    given = [] if options.report is None else [f"muster.client.lint.report.file={options.report}"]
    return load(
        file=None,
        environment={},
        overrides=[*given, *options.override],
        listen=options.listen,
        advertise=None,
        data_dir=None,
        in_memory=True,
        topics=options.topic,
        nodes=options.nodes,
    )
