"""The common part of all commands that use a running server, by Kafka's protocol or by its test control."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from muster.cli.output import as_json, fail, printing, say
from muster.cli.parser import like
from muster.client.connection import RequestFailed
from muster.client.kafka_client import KafkaClient, read_command_config
from muster.coordinator.config import ConfigError
from muster.coordinator.config.listeners import parse_addresses


def one_of(option: str, given: Sequence[str], known: Sequence[str]) -> list[str]:
    """The words of an option, divided by commas, in the spelling of `known`. Raises ConfigError for an unknown word."""
    by_letters = {one.lower(): one for one in known}
    found = []
    for word in (word.strip() for words in given for word in words.split(",")):
        if word.lower() not in by_letters:
            raise ConfigError(f"{option} '{word}': one of {', '.join(known)} was expected{like(word, known)}")
        found.append(by_letters[word.lower()])
    return found


def check_new_file(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before the work whose result the file gets. Raises ConfigError."""
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir():
        raise ConfigError(f"{option} {path} cannot be written: it is a folder; give a file")
    if not folder.is_dir():
        raise ConfigError(f"{option} {path} cannot be written: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigError(f"{option} {path} cannot be written: Permission denied; give another file")


Answer = Callable[[KafkaClient, argparse.Namespace], int]
"""Asks a cluster with a client, prints the answer, and returns the exit status."""


def with_client(
    *checks: Callable[[argparse.Namespace], object],
) -> Callable[[Answer], Callable[[argparse.Namespace], int]]:
    """Make a command from an `Answer`. Before it connects, it runs `checks` on the options (may raise ConfigError)."""

    def decorate(answer: Answer) -> Callable[[argparse.Namespace], int]:
        @wraps(answer)
        def run(options: argparse.Namespace) -> int:
            command = f"muster {options.command} {options.verb}"
            try:
                addresses = parse_addresses(options.bootstrap_server, "--bootstrap-server")
                security = read_command_config(options.command_config)
                if getattr(options, "last", None) is not None and options.last < 1:
                    raise ConfigError(f"--last {options.last}: a number of events, 1 or more, was expected")
                for check in checks:
                    check(options)
            except ConfigError as error:
                return fail(command, error, WRONG)
            try:
                with KafkaClient(addresses, security) as client:
                    return printing(command, lambda: answer(client, options))
            except RequestFailed as failure:
                return fail(command, failure)
            except KeyboardInterrupt:
                return 130

        return run

    return decorate


MAX_PORT: Final = 65_535
WRONG: Final = 2
"""The exit status for a wrong value on the command line, as in argparse."""
PATIENCE_S: Final = 30.0
"""How long an answer may take, beyond the wait that the request itself asks for."""


class ControlFailed(Exception):
    """The server refuses, or does not run. The text says why. `status`: the exit status of the command."""

    def __init__(self, words: str, status: int = 1) -> None:
        super().__init__(words)
        self.status = status


def path(*parts: str) -> str:
    """Make a path of the test control's HTTP interface, with quoted parts."""
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


class Control:
    """A client of the test control of one server."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Read --control and --control-token. Raises ControlFailed."""
        host, _, port = options.control.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
            raise ControlFailed(f"--control {options.control}: HOST:PORT was expected", WRONG)
        self._address = options.control
        self._host, self._port = host.strip("[]"), int(port)
        self._headers = {"Content-Type": "application/json"}
        token: Path | None = options.control_token
        if token is not None:
            try:
                self._headers["Authorization"] = f"Bearer {token.read_text(encoding='utf-8').strip()}"
            except OSError as error:
                raise ControlFailed(f"--control-token {token}: {error.strerror}") from error

    def ask(
        self, method: str, where: str, body: Mapping[str, Any] | None = None, *, wait_s: float = 0.0
    ) -> dict[str, Any]:
        """Send a request, and return the answer. Raises ControlFailed."""
        # this import loads ssl, which takes 20 ms
        from http.client import HTTPConnection, HTTPException

        connection = HTTPConnection(self._host, self._port, timeout=wait_s + PATIENCE_S)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, where, data, self._headers)
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ControlFailed(
                f"no control answers at {self._address}: {why}; start one with muster serve --control {self._address}"
            ) from error
        finally:
            connection.close()
        if "error" in answer:
            error_row = answer["error"]
            raise ControlFailed(error_row["message"], WRONG if error_row["code"] == "bad-request" else 1)
        return answer


def with_control(do: Callable[[Control, argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Make a command that uses the test control. Exit status 1: the server refuses or is away; 2: a value is wrong."""

    @wraps(do)
    def run(options: argparse.Namespace) -> int:
        command = f"muster {options.command} {options.verb}"
        try:
            control = Control(options)
            return printing(command, lambda: do(control, options))
        except ControlFailed as failure:
            for line in str(failure).splitlines():
                say(f"{command}: {line}", sys.stderr)
            return failure.status
        except KeyboardInterrupt:
            return 130

    return run


def show(answer: Mapping[str, Any], *, in_json: bool) -> None:
    """Print an answer of the test control, as JSON or with one field on each line."""
    if in_json:
        print(as_json(answer))
        return
    for name, value in answer.items():
        say(f"{name}: {value if isinstance(value, str) else as_json(value)}")
