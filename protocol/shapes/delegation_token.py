"""CreateDelegationToken and DescribeDelegationToken below 3: they do not tell who asked for a token (KIP-373)."""

from __future__ import annotations

from typing import Any


def lower_response(_version: int, response: Any) -> Any:
    """Without the requester: of the token that is made, or of each that is described."""
    for row in getattr(response, "tokens", (response,)):
        row.token_requester_principal_type = row.token_requester_principal_name = ""
    return response
