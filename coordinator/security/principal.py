"""The identity of a client, in Kafka's form."""

from __future__ import annotations

from typing import Final, NamedTuple


class KafkaPrincipal(NamedTuple):
    """Kafka's KafkaPrincipal. ACLs and super.users contain its text."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


USER: Final = "User"
"""The only principal type of Kafka."""
ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of a connection that did not authenticate."""
