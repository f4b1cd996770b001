"""`muster conform` proves of any broker where it is not Kafka."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

from muster.cli.output import fail, say
from muster.cli.parser import like
from muster.cli.running_server import check_new_file, one_of
from muster.client.connection import RequestFailed
from muster.client.kafka_client import read_command_config
from muster.client.security import ClientSecurity
from muster.conform import catalogue, session, settings
from muster.conform.player.releases import RELEASES, Release, name_of, release_of
from muster.conform.report import badge, html, json, junit, text
from muster.conform.results import Outcome, Report, State
from muster.conform.session import LEVELS, Session, Wishes
from muster.coordinator.config import ConfigError
from muster.coordinator.config.listeners import Address, parse_addresses, show

COMMAND: Final = "muster conform"
WRONG: Final = 2
"""The exit status when nothing could be compared."""
INTERRUPTED: Final = 130
FORMS: Final = {"json": json.render, "junit": junit.render, "html": html.render, "badge": badge.render}
"""The options for reports in files, and what makes the reports."""


def conform(options: argparse.Namespace) -> int:
    """Exit status 0 when nothing differs, 1 when something does, 2 when nothing could be compared."""
    if options.settings is not None:
        return _print_settings(options.settings)
    if options.listen is not None and options.address is not None:
        return fail(COMMAND, f"--listen serves clients, and {options.address} names a broker; give one", WRONG)
    if options.listen is not None:
        # a server, which conform's clients do not need
        from muster.cli import lint

        return lint.listen(options.listen, options.json)
    try:
        address = _address(options.address)
        security = read_command_config(options.command_config)
        wishes = _wishes(options)
        for form in FORMS:
            check_new_file(f"--{form}", getattr(options, form))
    except ConfigError as error:
        return fail(COMMAND, error, WRONG)
    try:
        return asyncio.run(_run(options, address, security, wishes))
    except RequestFailed as failure:
        return fail(COMMAND, failure, WRONG)
    except KeyboardInterrupt:
        return INTERRUPTED


def _address(given: str | None) -> Address:
    if given is None:
        raise ConfigError("HOST:PORT of a broker was expected")
    (address,) = parse_addresses(given, "HOST:PORT")[:1]
    return address


def _wishes(options: argparse.Namespace) -> Wishes:
    levels = one_of("--level", options.level, LEVELS) if options.level else list(LEVELS)
    stories = [name.strip() for given in options.story for name in given.split(",")]
    known = [story.name for story in catalogue.stories()] if stories else []
    for name in stories:
        if name not in known:
            raise ConfigError(f"--story {name}: there is no such story{like(name, known)}")
    return Wishes(levels, stories, _release(options.release), options.may_alter)


def _release(given: str | None) -> Release | None:
    if given is None:
        return None
    names = ", ".join(map(name_of, RELEASES))
    try:
        release = release_of(given)
    except ValueError:
        raise ConfigError(f"--as {given}: one of {names} was expected") from None
    if release not in RELEASES:
        raise ConfigError(f"--as {given}: one of {names} was expected")
    return release


def _print_settings(name: str) -> int:
    """Print broker properties with which stories can be played."""
    for key, value in settings.SETS[name].items():
        say(f"{key}={value}")
    return 0


async def _run(options: argparse.Namespace, address: Address, security: ClientSecurity | None, wishes: Wishes) -> int:
    one = await session.begin(address, show(*address), security, wishes)
    if options.dry_run:
        for line in one.dry():
            say(line)
        return 0
    task = asyncio.create_task(one.play(Progress(one).add))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    report = await task
    is_written = _write(options, report)
    for line in text.render(report).splitlines():
        say(line)
    if any(outcome.settings for outcome in report.outcomes):
        say(f"{COMMAND} --settings prints broker properties with which nearly all stories are played")
    if one.interrupted:
        return INTERRUPTED
    return report.exit_status if is_written else report.exit_status or WRONG


def _write(options: argparse.Namespace, report: Report) -> bool:
    """Write the reports, and return whether all of them are written."""
    is_written = True
    for form, render in FORMS.items():
        path: Path | None = getattr(options, form)
        if path is not None:
            try:
                path.write_text(render(report), encoding="utf-8")
            except OSError as error:
                fail(COMMAND, f"--{form} {path} cannot be written: {error.strerror or error}")
                is_written = False
    return is_written


class Progress:
    """Says on a terminal how far the run is."""

    def __init__(self, one: Session) -> None:
        self.count, self.done, self.failed = one.count, 0, 0
        self.is_shown = sys.stderr.isatty()

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        self.done += 1
        self.failed += outcome.state is State.FAILED
        if self.is_shown:
            end = "\n" if self.done == self.count else ""
            print(f"\r{self.done} of {self.count}, {self.failed} failed ", end=end, file=sys.stderr, flush=True)
