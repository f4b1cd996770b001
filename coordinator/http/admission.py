"""Decides who may use the HTTP door, from the headers of a request. This module knows no socket.

Without a token the door is only for programs on this machine. A web page in a browser of this machine is refused. A
page of another site sends its `Origin`. A name that was made to resolve to this machine stands in `Host`.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from muster.coordinator.http.address import LOOPBACK, DoorAddress
from muster.coordinator.http.failure import Failure

PROBES: Final = frozenset(("/healthz", "/readyz"))
"""Paths that need no token: a probe of a container cannot keep a secret."""

STATIC: Final = "/console/static/"
"""The paths of the console's files begin with this. The files have no secret, and ask their reader for the token."""


def admit(
    door: DoorAddress, scheme: str, path: str, headers: Mapping[str, str], *, is_known_user: bool = False
) -> None:
    """Raises Failure when the client may not send this request. `headers`: by names in lower case.

    `is_known_user`: the request has the password of a user who may look (`users`), which stands for the token.
    """
    host = headers.get("host", "localhost")
    origin = headers.get("origin")
    if origin is not None and origin != f"{scheme}://{host}":
        raise Failure("unauthorized", "a page in a browser may not do that: it is from another site")
    if door.figures_only or path in PROBES or (door.token is not None and (path == "/" or path.startswith(STATIC))):
        return
    if door.token is None:
        if _host_of(host) not in LOOPBACK:
            raise Failure("unauthorized", "a page in a browser may not do that without a token")
    elif not is_known_user and not hmac.compare_digest(
        headers.get("authorization", "").encode("latin-1", "replace"), b"Bearer " + door.token.encode()
    ):
        raise Failure("unauthorized", "the token is missing, or another one: Authorization: Bearer …")


def _host_of(text: str) -> str | None:
    try:
        parts = urlsplit(f"//{text}")
        _ = parts.port
    except ValueError as error:
        raise Failure("bad-request", f"the header Host is {text[:100]!r}; expected: HOST or HOST:PORT") from error
    return parts.hostname
