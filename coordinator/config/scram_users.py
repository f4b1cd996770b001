"""SCRAM credentials of the users of `--user`, and decoy credentials for users that do not exist.

A client that names a user gets a salt and a number of iterations, even if no such user exists. A repeated question gets
the same answer, also after a restart.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable
from itertools import accumulate
from typing import Final

from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.security.sasl.scram import MECHANISMS, MIN_ITERATIONS, base36
from muster.coordinator.topics.metadata_state import MetadataState
from muster.protocol.messages.metadata_records.user_scram_credential_record import UserScramCredentialRecord


def scram_records(
    users: Iterable[tuple[str, str]], present: Container[tuple[str, int]], draw_salt: Callable[[], bytes]
) -> list[UserScramCredentialRecord]:
    """Return a credential of each mechanism for each user, unless the user has one: later changes stay."""
    found: list[UserScramCredentialRecord] = []
    for name, password in users:
        for mechanism in MECHANISMS.values():
            if (name, mechanism.type) not in present:
                # the parameters are those of kafka-configs, and those of decoy credentials
                drawn = hashlib.sha256(draw_salt() + draw_salt()).digest()
                salt = base36(int.from_bytes(drawn[:17], "big") >> 6).encode()
                salted = mechanism.salted(password, salt, MIN_ITERATIONS)
                made = mechanism.credential(salt, salted, MIN_ITERATIONS)
                found.append(UserScramCredentialRecord(name, mechanism.type, *made))
    return found


SECRET_FILE: Final = "scram.secret"
_BYTES: Final = 32
_ONE: Final = 1 << 32


def decoy_secret(storage: Storage, draw: Callable[[], bytes]) -> bytes:
    """The secret that salts are derived from: drawn when it is first needed, and kept in the data directory."""
    kept = storage.load(SECRET_FILE)
    if kept is not None and len(kept) == _BYTES:
        return kept
    drawn = draw() + draw()
    storage.save(SECRET_FILE, drawn, sync=True)
    return drawn


class DecoyIterations:
    """The iterations of a decoy credential. Each number is as frequent as among the existing users."""

    def __init__(self, state: Callable[[], MetadataState]) -> None:
        """`state`: returns the present state of the metadata log."""
        self._state = state
        self._version = -1
        self._known: dict[int, tuple[list[int], list[int]]] = {}

    def __call__(self, kind: int, drawn: int) -> int:
        """`kind`: the mechanism's type. `drawn`: the user's number, below 2^32."""
        state = self._state()
        if state.version != self._version:
            self._version = state.version
            self._known.clear()
        if kind not in self._known:
            counts = Counter(one.iterations for (_, type_), one in state.scram.items() if type_ == kind)
            numbers = sorted(counts)
            self._known[kind] = numbers, list(accumulate(counts[one] for one in numbers))
        numbers, ends = self._known[kind]
        return numbers[bisect_right(ends, drawn * ends[-1] // _ONE)] if numbers else MIN_ITERATIONS
