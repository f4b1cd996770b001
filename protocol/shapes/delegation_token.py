"""CreateDelegationToken and DescribeDelegationToken below 3: answers have no requester of a token (KIP-373)."""

from __future__ import annotations

from typing import Any


def lower_response(_version: int, response: Any) -> Any:
    """Remove the requester from the created token, or from each described one."""
    for row in getattr(response, "tokens", (response,)):
        row.token_requester_principal_type = row.token_requester_principal_name = ""
    return response
