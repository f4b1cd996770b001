"""The common part of the commands that use a running server, of Muster or of Kafka: `muster groups` and `muster
transactions`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def options_of_cluster() -> argparse.ArgumentParser:
    """The options for the server, the security and the form of the output: a parent of other parsers."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT[,…]",
        default="localhost:9092",
        help="servers of the cluster, the first that answers is asked (default: %(default)s)",
    )
    shared.add_argument(
        "--command-config", type=Path, metavar="FILE", help="a client.properties as Kafka's tools have it: TLS, SASL"
    )
    shared.add_argument("--json", action="store_true", help="JSON lines instead of text for people")
    return shared


def one_of(option: str, given: Sequence[str], known: Sequence[str]) -> list[str]:
    """The words of an option, also several with commas, in the spelling of the known words. Raises ConfigError."""
    from muster.coordinator.config import ConfigError

    by_letters = {one.lower(): one for one in known}
    found = []
    for word in (word.strip() for words in given for word in words.split(",")):
        if word.lower() not in by_letters:
            from muster.cli.parser import like

            raise ConfigError(f"{option} '{word}': one of {', '.join(known)} was expected{like(word, known)}")
        found.append(by_letters[word.lower()])
    return found


def ask(
    command: str,
    options: argparse.Namespace,
    answer: Callable[[Any], int],
    check: Callable[[], object] = lambda: None,
) -> int:
    """Have `answer(cluster)` print the answer of the server, and return the exit status. `cluster` is a
    `kafka_client.Cluster`. `command`: as the user called it. `check` may raise ConfigError for wrong options.
    """
    from muster.cli.output import printing, say
    from muster.client.connection import AskingFailed
    from muster.client.kafka_client import Cluster, read_command_config
    from muster.coordinator.config import ConfigError
    from muster.coordinator.config.listeners import parse_addresses

    try:
        addresses = parse_addresses(options.bootstrap_server, "--bootstrap-server")
        security = read_command_config(options.command_config)
        if getattr(options, "last", None) is not None and options.last < 1:
            raise ConfigError(f"--last {options.last}: a number of events, 1 or more, was expected")
        check()
    except ConfigError as error:
        say(f"{command}: {error}", sys.stderr)
        return 2
    try:
        with Cluster(addresses, security) as cluster:
            return printing(command, lambda: answer(cluster))
    except AskingFailed as failure:
        say(f"{command}: {failure}", sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1
