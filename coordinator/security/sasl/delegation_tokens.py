"""Delegation tokens (KIP-48): short-lived credentials that a user creates for programs that work in the user's name.

A token's id is a SCRAM user. The password is an HMAC of the id with the servers' secret, in base64. A client with id
and password acts as the token's owner. Only the token's record is stored, in the metadata log.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from muster.coordinator.security.authorizer import USER, KafkaPrincipal
from muster.coordinator.security.sasl.scram import ScramCredential, ScramMechanism, TokenCredential

if TYPE_CHECKING:
    from muster.protocol.messages.metadata_records.delegation_token_record import DelegationTokenRecord

MAX_TOKENS: Final = 10_000
"""The most tokens: they are kept in memory, and searched."""
MAX_KEPT: Final = 1_000
"""The most credentials that are kept. To make a credential takes some 4 ms."""


def principal(text: str) -> KafkaPrincipal:
    """The principal in a record (SecurityUtils.parseKafkaPrincipal)."""
    kind, _, name = text.partition(":")
    return KafkaPrincipal(kind, name)


class DelegationTokens:
    """See the module."""

    def __init__(
        self,
        secret: str,
        tokens: Callable[[], Mapping[str, DelegationTokenRecord]],
        *,
        max_lifetime_ms: int,
        renewal_ms: int,
    ) -> None:
        """`tokens`: the present tokens, by id. `renewal_ms`: how long a token is valid until it must be renewed."""
        self._secret = secret.encode("utf-8", "surrogatepass")
        self._tokens = tokens
        self.max_lifetime_ms = max_lifetime_ms
        self.renewal_ms = renewal_ms
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, int], ScramCredential] = {}

    @property
    def now(self) -> Mapping[str, DelegationTokenRecord]:
        """The present tokens, by id."""
        return self._tokens()

    def hmac_of(self, token_id: str) -> bytes:
        """The HMAC of a token, which its owner must present."""
        made = self._hmacs.get(token_id)
        if made is None:
            if len(self._hmacs) > 2 * MAX_TOKENS:
                self._hmacs.clear()
                self._ids.clear()
            made = self._hmacs[token_id] = hmac.digest(self._secret, token_id.encode(), "sha512")
            self._ids[made] = token_id
        return made

    def of_hmac(self, shown: bytes) -> DelegationTokenRecord | None:
        """The token with this HMAC."""
        tokens = self._tokens()
        if shown not in self._ids:
            for token_id in tokens:
                self.hmac_of(token_id)
        return tokens.get(self._ids.get(shown, ""))

    def credential(
        self, mechanism: ScramMechanism, token_id: str, salt: bytes, iterations: int
    ) -> TokenCredential | None:
        """The SCRAM credential of a token. None means that no token has this id."""
        record = self._tokens().get(token_id)
        if record is None:
            return None
        made = self._credentials.get((token_id, mechanism.type))
        if made is None:
            if len(self._credentials) >= MAX_KEPT:
                self._credentials.clear()
            password = base64.b64encode(self.hmac_of(token_id)).decode()
            made = mechanism.credential(salt, mechanism.salted(password, salt, iterations), iterations)
            self._credentials[token_id, mechanism.type] = made
        return TokenCredential(made, principal(record.owner).name, record.expiration_timestamp)


def may_renew(record: DelegationTokenRecord, requester: KafkaPrincipal) -> bool:
    """Whether the requester may renew and expire the token, as its owner or a renewer."""
    return str(requester) in (record.owner, *record.renewers)


def belongs_to(record: DelegationTokenRecord, one: KafkaPrincipal) -> bool:
    """Whether the principal sees the token without further permission. Owner, requester and renewers see it."""
    return str(one) in (record.owner, record.requester, *record.renewers)


def has_expired(record: DelegationTokenRecord, wall_ms: int) -> bool:
    """Whether the token has expired."""
    return record.max_timestamp < wall_ms or record.expiration_timestamp < wall_ms


def is_user(kind: str) -> bool:
    """Whether principals of this type may renew tokens: only users may."""
    return kind == USER
