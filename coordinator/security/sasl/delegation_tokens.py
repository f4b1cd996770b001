"""Delegation tokens (KIP-48): short-lived credentials that a user makes for those who work for it.

A token has an id and an HMAC of it, made with the servers' secret. Who brings both is the token's owner: the id is a
user of SCRAM, the HMAC in base64 its password. Nothing of that is kept but what the metadata log says of the token.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from muster.coordinator.security.principal import USER, KafkaPrincipal
from muster.coordinator.security.sasl.scram import ScramCredential, ScramMechanism, TokenCredential

if TYPE_CHECKING:
    from muster.protocol.messages.metadata_records.delegation_token_record import DelegationTokenRecord

MOST_TOKENS: Final = 10_000
"""They are kept in memory, and looked through."""
MOST_KEPT: Final = 1_000
"""Credentials that are kept; to make one takes some 4 ms."""


def principal(text: str) -> KafkaPrincipal:
    """Of a record (SecurityUtils.parseKafkaPrincipal)."""
    kind, _, name = text.partition(":")
    return KafkaPrincipal(kind, name)


class DelegationTokens:
    """See the module."""

    def __init__(
        self,
        secret: str,
        tokens: Callable[[], Mapping[str, DelegationTokenRecord]],
        *,
        most_lifetime_ms: int,
        renewal_ms: int,
    ) -> None:
        """`tokens`: those that there are now, by id; `most_lifetime_ms`: of any token; `renewal_ms`: how long one is
        good until it has to be renewed.
        """
        self._secret = secret.encode("utf-8", "surrogatepass")
        self._tokens = tokens
        self.most_lifetime_ms = most_lifetime_ms
        self.renewal_ms = renewal_ms
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, int], ScramCredential] = {}

    @property
    def now(self) -> Mapping[str, DelegationTokenRecord]:
        """Those that there are, by id."""
        return self._tokens()

    def hmac_of(self, token_id: str) -> bytes:
        """What the owner of a token has to show."""
        made = self._hmacs.get(token_id)
        if made is None:
            if len(self._hmacs) > 2 * MOST_TOKENS:
                self._hmacs.clear()
                self._ids.clear()
            made = self._hmacs[token_id] = hmac.digest(self._secret, token_id.encode(), "sha512")
            self._ids[made] = token_id
        return made

    def of_hmac(self, shown: bytes) -> DelegationTokenRecord | None:
        """The token whose HMAC this is."""
        tokens = self._tokens()
        if shown not in self._ids:
            for token_id in tokens:
                self.hmac_of(token_id)
        return tokens.get(self._ids.get(shown, ""))

    def credential(
        self, mechanism: ScramMechanism, token_id: str, salt: bytes, iterations: int
    ) -> TokenCredential | None:
        """What SCRAM needs of a token; None when there is none of this id."""
        record = self._tokens().get(token_id)
        if record is None:
            return None
        made = self._credentials.get((token_id, mechanism.type))
        if made is None:
            if len(self._credentials) >= MOST_KEPT:
                self._credentials.clear()
            password = base64.b64encode(self.hmac_of(token_id)).decode()
            made = mechanism.credential(salt, mechanism.salted(password, salt, iterations), iterations)
            self._credentials[token_id, mechanism.type] = made
        return TokenCredential(made, principal(record.owner).name, record.expiration_timestamp)


def may_renew(record: DelegationTokenRecord, requester: KafkaPrincipal) -> bool:
    """Renewing, and expiring, is for the owner and the renewers."""
    return str(requester) in (record.owner, *record.renewers)


def belongs_to(record: DelegationTokenRecord, one: KafkaPrincipal) -> bool:
    """Owner, requester and renewers see a token without being allowed to see those of others."""
    return str(one) in (record.owner, record.requester, *record.renewers)


def has_expired(record: DelegationTokenRecord, wall_ms: int) -> bool:
    """Its time is over."""
    return record.max_timestamp < wall_ms or record.expiration_timestamp < wall_ms


def is_user(kind: str) -> bool:
    """The one type of principals that may renew."""
    return kind == USER
