"""Makes records of the metadata log from the users of `--user`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable

from muster.coordinator.security.sasl.scram import MECHANISMS, MIN_ITERATIONS, base36
from muster.protocol.messages.metadata_records.user_scram_credential_record import UserScramCredentialRecord


def records(
    users: Iterable[tuple[str, str]], present: Container[tuple[str, int]], draw_salt: Callable[[], bytes]
) -> list[UserScramCredentialRecord]:
    """A credential of each mechanism for each user, unless one exists: later changes stay."""
    found: list[UserScramCredentialRecord] = []
    for name, password in users:
        for mechanism in MECHANISMS.values():
            if (name, mechanism.type) not in present:
                # these are like the ones of kafka-configs, and like those of decoys
                drawn = hashlib.sha256(draw_salt() + draw_salt()).digest()
                salt = base36(int.from_bytes(drawn[:17], "big") >> 6).encode()
                salted = mechanism.salted(password, salt, MIN_ITERATIONS)
                made = mechanism.credential(salt, salted, MIN_ITERATIONS)
                found.append(UserScramCredentialRecord(name, mechanism.type, *made))
    return found
