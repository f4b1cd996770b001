"""The texts of `muster serve` about its configuration (`--check`, which opens no port) and about a failed start."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from muster.coordinator.config import Config, Listener
from muster.coordinator.config.config import TOKEN_SECRET
from muster.coordinator.config.listeners import WILDCARDS, of_node, show
from muster.coordinator.properties.live import Live
from muster.coordinator.system.host_names import CannotListen

_LOOPBACK = ("localhost", "::1")
_CLIENTS = {
    "none": "Clients need no certificate and are not known: each is User:ANONYMOUS.",
    "requested": "Clients may show a certificate, which names them; those without one are User:ANONYMOUS.",
    "required": "Clients need a certificate, which names them.",
}
_OF_THE_DOOR = ("--http", "--metrics", "--control", "muster.http.listener")
"""The options and the property with the address of the HTTP door."""


def config_summary(config: Config, file: Path | None) -> Iterator[str]:
    """Lines about each listener and its security, then lines that begin with `warning: `."""
    warnings: list[str] = [f"warning: {note}" for note in config.notes]
    live = Live(config)
    for listener in config.listeners:
        where = show(listener.host, listener.port) + (" (every address of this machine)" * (listener.host in WILDCARDS))
        advertised = "at which they arrived"
        if listener.advertised_host is not None:
            port = listener.advertised_port or listener.port
            advertised = (
                show(listener.advertised_host, port) if port else f"{listener.advertised_host} and the port it gets"
            )
        speaks = f"is at {where} and speaks {listener.protocol}"
        yield f"Listener {listener.name} {speaks}. Clients get the address {advertised}."
        if listener.has_tls:
            yield from _tls(listener, live, warnings)
        elif not listener.has_sasl:
            yield "  It is not encrypted, and clients are not known: each is User:ANONYMOUS."
        if listener.has_sasl:
            yield from _sasl(listener, live, warnings)
        if not listener.has_tls and not _is_loopback(listener.host) and not _in_the_clear(listener, live):
            who = "others on the network can read all that clients send"
            if not listener.has_sasl:
                who = "everyone who reaches it may connect, and others on the network can read all that clients send"
            warnings.append(f"warning: listener {listener.name}: {who}; use TLS, or listen on 127.0.0.1")
    yield _authorization(config)
    if config.value(TOKEN_SECRET):
        yield "Delegation tokens are made for clients that have authenticated, and used with SCRAM."
        mechanisms = [live.of_listener(one.name, "sasl.enabled.mechanisms") for one in config.listeners if one.has_sasl]
        if not any("SCRAM" in str(one) for one in mechanisms):
            warnings.append(f"warning: {TOKEN_SECRET} is given, but no listener has SCRAM: no token can be used")
    warnings += files_of_others(config, file)
    yield from warnings


def mistakes(config: Config) -> Iterator[str]:
    """A sentence for each listener that receives passwords or tokens unencrypted. Kafka, too, accepts such settings."""
    live = Live(config)
    for listener in config.listeners:
        if kinds := _in_the_clear(listener, live):
            where = show(listener.host, listener.port)
            yield (
                f"listener {listener.name} at {where}: {' and '.join(kinds)} would be sent in the clear; use SASL_SSL, "
                "or listen on 127.0.0.1"
            )


def _in_the_clear(listener: Listener, live: Live) -> list[str]:
    """The kinds of secrets that clients send to this listener unencrypted over the network. SCRAM sends no secrets."""
    if not listener.has_sasl or listener.has_tls or _is_loopback(listener.host):
        return []
    from muster.coordinator.config.security import sasl_settings

    mechanisms = sasl_settings(listener, live).mechanisms
    kinds = {"PLAIN": "the passwords of PLAIN", "OAUTHBEARER": "the tokens of OAUTHBEARER"}
    return [what for mechanism, what in kinds.items() if mechanism in mechanisms]


def _authorization(config: Config) -> str:
    given = config.authorization
    if given is None:
        return "Every connected client may do everything: there is no authorizer.class.name."
    users = f"{', '.join(given.super_users)} may do everything" if given.super_users else "There are no super.users"
    others = "for everybody" if given.allows_when_open else "for nobody else"
    return f"{users}; others may do what access control entries allow. A resource without entries is {others}."


def _tls(listener: Listener, live: Live, warnings: list[str]) -> Iterator[str]:
    from muster.coordinator.config.security import tls_settings
    from muster.coordinator.net.tls.context import build
    from muster.coordinator.security.distinguished_name import subject

    settings = tls_settings(listener, live)
    made = build(settings)
    versions = sorted({made.context.minimum_version.name, made.context.maximum_version.name})
    spoken = " to ".join(one.replace("_", ".", 1) for one in versions)
    yield f"  It is encrypted ({spoken}); its certificate is that of {subject(made.certificate)}."
    if listener.has_sasl and settings.ssl_client_auth != "none":
        yield "  Clients may need a certificate too (ssl.client.auth), but it does not name them."
    elif not listener.has_sasl:
        yield f"  {_CLIENTS[settings.ssl_client_auth]}"
    warnings += [f"warning: listener {listener.name}: {note}" for note in made.notes]


def _sasl(listener: Listener, live: Live, warnings: list[str]) -> Iterator[str]:
    from muster.coordinator.config.security import sasl_settings

    settings = sasl_settings(listener, live)
    if not listener.has_tls:
        yield "  It is not encrypted."
    yield f"  Clients say who they are by {', '.join(settings.mechanisms)}."
    if settings.users:
        yield f"  PLAIN knows {len(settings.users)} user{'s' * (len(settings.users) != 1)}."
    bearer = settings.bearer
    if bearer is not None and bearer.unsecured is not None:
        what = "tokens of OAUTHBEARER need no signature, so each client is who it says it is"
        warnings.append(f"warning: listener {listener.name}: {what}; only for tests")
    elif bearer is not None:
        expected = bearer.expected
        issuer = "any issuer" if expected.issuer is None else f"the issuer {expected.issuer}"
        audiences = ", ".join(sorted(expected.audiences)) or "nobody (tokens that name an audience are refused)"
        yield f"  Tokens of OAUTHBEARER are signed by {issuer}, for {audiences}."
        if bearer.is_open:
            what = "the keys for tokens are fetched by http, so they can be exchanged on the way"
            warnings.append(f"warning: listener {listener.name}: {what}; use https")
    if any(settings.max_reauth_ms.values()):
        yield f"  They say so again after {max(settings.max_reauth_ms.values())} ms at most."


def files_of_others(config: Config, file: Path | None) -> list[str]:
    """A warning for each file with secrets that every user may read, and for such a data directory."""
    live = Live(config)
    paths = {}
    for listener in config.listeners:
        location = live.of_listener(listener.name, "ssl.keystore.location") if listener.has_tls else None
        if location is not None:
            paths[str(location)] = "the server's key"
    users = config.value("muster.sasl.jaas.file")
    if users is not None:
        paths[str(users)] = "passwords"
    if file is not None and config.has_passwords_in_file:
        paths[str(file)] = "passwords"
    found = [
        f"warning: {path} has {what} and can be read by every user of this machine; chmod o-r {path}"
        for path, what in paths.items()
        if _others_may(stat.S_IROTH, path)
    ]
    folder = config.data_dir
    if folder is not None and any(one.has_sasl for one in config.listeners) and _others_may(stat.S_IXOTH, str(folder)):
        found.append(
            f"warning: {folder} has what users' passwords are checked with and can be read by every user of this "
            f"machine; chmod o-rwx {folder}"
        )
    return found


def _others_may(what: int, path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & what)
    except OSError:
        return False


def _is_loopback(host: str) -> bool:
    return host in _LOOPBACK or host.startswith("127.")


def start_failure(error: OSError, config: Config) -> str:
    """A sentence that names the address or directory that cannot be used, the reason, and what to do."""
    if error.filename is not None:
        # the files of a data directory have names within the directory
        place = os.path.join(config.data_dir or "", error.filename)
        if isinstance(error, FileExistsError):
            return f"{place} cannot be used: it is a file; give a directory with --data-dir"
        return f"{place} cannot be used: {_reason(error)}; give a writable directory with --data-dir"
    if isinstance(error, CannotListen):
        return _cannot_listen(error, config)
    return f"cannot start: {_reason(error)}"


def _cannot_listen(error: CannotListen, config: Config) -> str:
    what, option = _named(error, config)
    own = next((one for place, one in _listeners(config) if one.port == error.port), None)
    if error.errno == errno.EADDRINUSE and error.purpose in _OF_THE_DOOR and own is not None:
        where = f"cannot listen on {show(error.host, error.port)}{what}"
        return f"{where}: listener {own.name} of this server has that port; give another with {option}"
    return cannot_listen(error, option, what)


def cannot_listen(error: CannotListen, option: str, what: str = "") -> str:
    """A sentence about an address at which a server cannot listen, and what to do. `option` gave the address."""
    where = f"cannot listen on {show(error.host, error.port)}{what}"
    if isinstance(error.__cause__, socket.gaierror):
        return f"{where}: the host is not known; give an address of this machine with {option}"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: the port is in use; stop the program that has it, or give another with {option}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where}: it is not an address of this machine; give one that is with {option}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{where}: this user is not allowed to; give a port above 1023 with {option}"
    return f"{where}: {_reason(error.__cause__ or error)}; give another address with {option}"


def _named(error: CannotListen, config: Config) -> tuple[str, str]:
    """The name of the server in brackets, and the option with its address."""
    if error.purpose in _OF_THE_DOOR:
        return f" ({error.purpose})", error.purpose
    option = "--listen" if len(config.listeners) == 1 else "the property listeners"
    words = []
    if len(config.listeners) > 1:
        words.append(f"listener {error.purpose}")
    if config.nodes > 1:
        places = [place for place, one in _listeners(config) if (one.name, one.port) == (error.purpose, error.port)]
        words += [f"broker {config.node_id + place} of --nodes {config.nodes}" for place in places[:1]]
    return f" ({', '.join(words)})" if words else "", option


def _listeners(config: Config) -> Iterator[tuple[int, Listener]]:
    for place in range(config.nodes):
        for one in of_node(config.listeners, place):
            yield place, one


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)
