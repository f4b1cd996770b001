"""The answers for SCRAM users that do not exist look like those for users that exist."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from muster.coordinator.config.scram_users import SECRET_FILE, DecoyIterations, decoy_secret, scram_records
from muster.coordinator.log.storage.memory import MemoryStorage
from muster.coordinator.security.sasl.scram import MECHANISMS, Credentials
from muster.protocol.messages.metadata_records.user_scram_credential_record import UserScramCredentialRecord

SHA256 = MECHANISMS["SCRAM-SHA-256"]


def test_the_secret_of_decoy_credentials_is_kept() -> None:
    storage, drawn = MemoryStorage(), iter([b"a" * 16, b"b" * 16, b"c" * 16, b"d" * 16])
    storage.make_directory("")
    first = decoy_secret(storage, lambda: next(drawn))
    assert first == decoy_secret(storage, lambda: next(drawn)) == b"a" * 16 + b"b" * 16
    storage.save(SECRET_FILE, b"short")
    assert decoy_secret(storage, lambda: next(drawn)) == b"c" * 16 + b"d" * 16


def credentials(state: Any, secret_: bytes = b"s" * 32) -> Credentials:
    return Credentials(SHA256, lambda _: None, lambda: "", secret_, None, DecoyIterations(lambda: cast(Any, state)))


def test_decoy_iterations_are_distributed_as_those_of_real_users() -> None:
    state = SimpleNamespace(version=1, scram={})
    made = credentials(state)
    assert made.decoy("x").iterations == 4096
    for number in range(4):
        count = 8192 if number else 5000
        state.scram[f"u{number}", SHA256.type] = UserScramCredentialRecord(f"u{number}", 1, b"", b"", b"", count)
    state.scram["other", 2] = UserScramCredentialRecord("other", 2, b"", b"", b"", 16384)
    assert made.decoy("x").iterations == 4096, "not looked at again while nothing has changed"
    state.version = 2
    seen = Counter(made.decoy(f"nobody {number}").iterations for number in range(2000))
    assert set(seen) == {5000, 8192}
    assert 400 < seen[5000] < 600
    assert made.decoy("x", is_token=True).iterations == 4096


def test_the_decoy_credential_of_a_user_is_always_the_same() -> None:
    state = SimpleNamespace(version=1, scram={})
    assert credentials(state).decoy("x") == credentials(state).decoy("x")
    assert credentials(state).decoy("x").salt != credentials(state, b"t" * 32).decoy("x").salt
    assert credentials(state).decoy("x").salt != credentials(state).decoy("y").salt


def test_real_salts_have_the_form_of_decoy_salts() -> None:
    drawn = iter(bytes([number]) * 16 for number in range(100))
    salts = [one.salt for one in scram_records([("a", "p"), ("b", "q")], set(), lambda: next(drawn))]
    assert len(set(salts)) == 4
    for salt in (*salts, credentials(SimpleNamespace(version=1, scram={})).decoy("x").salt):
        assert 20 < len(salt) <= 26
        assert set(salt) <= set(b"0123456789abcdefghijklmnopqrstuvwxyz")
