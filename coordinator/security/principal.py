"""Who a client is, as Kafka names it."""

from __future__ import annotations

from typing import Final, NamedTuple


class KafkaPrincipal(NamedTuple):
    """Kafka's KafkaPrincipal; its text is what ACLs and super.users are written with."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


USER: Final = "User"
"""The one type of principals that Kafka has."""
ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of a connection that did not authenticate."""
