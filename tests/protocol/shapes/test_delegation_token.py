"""The requester of a token is in the answer from version 3 on."""

from __future__ import annotations

import pytest

from muster.protocol.api import ApiKey, api
from muster.protocol.message import Message
from muster.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from muster.protocol.messages.describe_delegation_token import DescribedDelegationToken, DescribeDelegationTokenResponse
from tests.support.hub import lower_response


def made() -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        principal_type="User",
        principal_name="alice",
        token_requester_principal_type="User",
        token_requester_principal_name="bob",
    )


def described() -> DescribeDelegationTokenResponse:
    row = DescribedDelegationToken(
        principal_type="User",
        principal_name="alice",
        token_requester_principal_type="User",
        token_requester_principal_name="bob",
    )
    return DescribeDelegationTokenResponse(tokens=[row])


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("key", [ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN])
def test_the_requester_of_a_delegation_token_is_shown_from_version_3_on(key: int, version: int) -> None:
    answer: Message = made() if key == ApiKey.CREATE_DELEGATION_TOKEN else described()
    lowered = lower_response(key, version, answer)
    read = api(key).decode_response(version, api(key).encode_response(version, lowered))
    (row,) = getattr(read, "tokens", (read,))
    assert row.principal_name == "alice"
    assert row.token_requester_principal_name == ("bob" if version >= 3 else "")
