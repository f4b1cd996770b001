"""Why the server could not start, as one sentence for the user."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

from muster.coordinator.config import Config
from muster.coordinator.config.listeners import Listener, of_node, show
from muster.coordinator.system.host_names import CannotListen

_OPTIONS = {"metrics": "--metrics", "control": "--control"}
"""The servers beside the listeners of Kafka's protocol, and the options with their addresses."""


def sentence(error: OSError, config: Config) -> str:
    """The address or directory that cannot be used, the reason, and what to do."""
    if error.filename is not None:
        return f"{error.filename} cannot be used: {_reason(error)}; give a writable directory with --data-dir"
    if isinstance(error, CannotListen):
        return _cannot_listen(error, config)
    return f"cannot start: {_reason(error)}"


def _cannot_listen(error: CannotListen, config: Config) -> str:
    what, option = _named(error, config)
    where = f"cannot listen on {show(error.host, error.port)}{what}"
    if isinstance(error.__cause__, socket.gaierror):
        return f"{where}: the host is not known; give an address of this machine with {option}"
    if error.errno == errno.EADDRINUSE:
        own = next((one for place, one in _listeners(config) if one.port == error.port), None)
        if error.purpose in _OPTIONS and own is not None:
            return f"{where}: listener {own.name} of this server has that port; give another with {option}"
        return f"{where}: the port is in use; stop the program that has it, or give another with {option}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where}: it is not an address of this machine; give one that is with {option}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{where}: this user is not allowed to; give a port above 1023 with {option}"
    return f"{where}: {_reason(error.__cause__ or error)}; give another address with {option}"


def _named(error: CannotListen, config: Config) -> tuple[str, str]:
    """The name of the server, in brackets, and the option with its address."""
    if error.purpose in _OPTIONS:
        option = _OPTIONS[error.purpose]
        return f" ({option})", option
    option = "--listen" if len(config.listeners) == 1 else "the property listeners"
    words = []
    if len(config.listeners) > 1:
        words.append(f"listener {error.purpose}")
    if config.nodes > 1:
        places = [place for place, one in _listeners(config) if (one.name, one.port) == (error.purpose, error.port)]
        words += [f"broker {config.node_id + place} of --nodes {config.nodes}" for place in places[:1]]
    return f" ({', '.join(words)})" if words else "", option


def _listeners(config: Config) -> Iterator[tuple[int, Listener]]:
    """The listeners of each broker of the process, with the broker's index from 0."""
    for place in range(config.nodes):
        for one in of_node(config.listeners, place):
            yield place, one


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)
