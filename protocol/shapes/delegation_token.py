"""CreateDelegationToken and DescribeDelegationToken have no requester in answers below version 3 (KIP-373)."""

from __future__ import annotations

from typing import Any


def lower_response(_version: int, response: Any) -> Any:
    """Remove the requester from the created token, or from each described token."""
    for row in getattr(response, "tokens", (response,)):
        row.token_requester_principal_type = row.token_requester_principal_name = ""
    return response
