"""Sends requests to the control of a server under test, for `muster faults`, `muster time`, and part of `muster
groups`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

DEFAULT: Final = "127.0.0.1:9094"
MOST_PORT: Final = 65_535
WRONG: Final = 2
"""The exit status of a command with a wrong value, as in argparse."""
PATIENCE_S: Final = 30.0
"""How much longer than the requested wait an answer may take."""


class ControlFailed(Exception):
    """The server refuses, or does not run; the text says why. `status`: the exit status of the command."""

    def __init__(self, words: str, status: int = 1) -> None:
        super().__init__(words)
        self.status = status


def options_of_control() -> argparse.ArgumentParser:
    """The options of each command that uses the control."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--control",
        metavar="HOST:PORT",
        default=os.environ.get("MUSTER_CONTROL", DEFAULT),
        help=f"as the server was given it (default: MUSTER_CONTROL, else {DEFAULT})",
    )
    shared.add_argument("--control-token", type=Path, metavar="FILE", help="as the server was given it")
    shared.add_argument("--json", action="store_true", help="JSON instead of text for people")
    return shared


def path(*parts: str) -> str:
    """A path of the control from its parts."""
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


class Control:
    """The client of the control of one server."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Raises ControlFailed."""
        host, _, port = options.control.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or int(port) > MOST_PORT:
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
        """The answer. Raises ControlFailed."""
        # imported here: the import takes 20 ms
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
            told = answer["error"]
            raise ControlFailed(told["message"], WRONG if told["code"] == "bad-request" else 1)
        return answer


def asking(command: str, options: argparse.Namespace, do: Callable[[Control], int]) -> int:
    """Run a command that uses the control; exit status 1 when the server refuses, 2 for a wrong value."""
    from muster.cli.output import printing, say

    try:
        control = Control(options)
        return printing(command, lambda: do(control))
    except ControlFailed as failure:
        for line in str(failure).splitlines():
            say(f"{command}: {line}", sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return 130


def show(answer: Mapping[str, Any], *, in_json: bool) -> None:
    """Print an answer: as JSON, or each field on a line."""
    from muster.cli.output import as_json, say

    if in_json:
        print(as_json(answer))
        return
    for name, value in answer.items():
        say(f"{name}: {value if isinstance(value, str) else as_json(value)}")
