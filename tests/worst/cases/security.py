"""The largest requests about access control, quotas and credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from muster.protocol.message import Message
from muster.protocol.messages import alter_client_quotas as acq
from muster.protocol.messages import alter_user_scram_credentials as ausc
from muster.protocol.messages import create_acls as ca
from muster.protocol.messages import create_delegation_token as cdt
from muster.protocol.messages import delete_acls as da
from muster.protocol.messages import describe_acls as dea
from muster.protocol.messages import describe_client_quotas as dcq
from muster.protocol.messages import describe_delegation_token as ddt
from muster.protocol.messages import describe_user_scram_credentials as dusc
from muster.protocol.messages import expire_delegation_token as edt
from muster.protocol.messages import renew_delegation_token as rdt
from tests.worst.cases.case import BYTES, LONG_GROUPS, Case, fresh
from tests.worst.state import (
    State,
    client_name,
    credential,
    quota,
    topic_name,
)


def described_acls(s: State, n: int) -> Iterator[Message]:
    yield dea.DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    yield dea.DescribeAclsRequest(2, topic_name(0), 2, None, None, 1, 1)


def created_acls(s: State, n: int) -> Iterator[Message]:
    rows = [ca.AclCreation(2, topic_name(i), 3 + i % 2, f"User:{client_name(i)}", "*", 3, 3) for i in fresh(n)]
    yield ca.CreateAclsRequest(rows)
    yield da.DeleteAclsRequest([da.DeleteAclsFilter(2, None, 1, rows[0].principal, None, 1, 1)])


def deleted_acls(s: State, n: int) -> Iterator[Message]:
    numbers = fresh(n)
    rows = [ca.AclCreation(2, "gone", 3, f"User:{client_name(i)}", "*", 3, 3) for i in numbers]
    yield ca.CreateAclsRequest(rows)
    filters = [da.DeleteAclsFilter(2, None, 1, f"User:{client_name(i)}", None, 1, 1) for i in numbers[:100]]
    yield da.DeleteAclsRequest(filters)
    yield da.DeleteAclsRequest([da.DeleteAclsFilter(2, "gone", 3, None, None, 1, 1)])


def described_quotas(s: State, n: int) -> Iterator[Message]:
    yield dcq.DescribeClientQuotasRequest([])
    yield dcq.DescribeClientQuotasRequest([dcq.ComponentData("user", 0, client_name(1))])


def altered_quotas(s: State, n: int) -> Iterator[Message]:
    numbers = fresh(n)
    yield acq.AlterClientQuotasRequest([quota(i, "client-id") for i in numbers])
    yield acq.AlterClientQuotasRequest([quota(i, "client-id", remove=True) for i in numbers])


def described_users(s: State, n: int) -> Iterator[Message]:
    yield dusc.DescribeUserScramCredentialsRequest(None)
    yield dusc.DescribeUserScramCredentialsRequest([dusc.UserName(client_name(i)) for i in range(n)])


def altered_users(s: State, n: int) -> Iterator[Message]:
    numbers = fresh(n)
    yield ausc.AlterUserScramCredentialsRequest([], [credential(i) for i in numbers])
    yield ausc.AlterUserScramCredentialsRequest([ausc.ScramCredentialDeletion(client_name(i), 1) for i in numbers], [])


def created_token(s: State, n: int) -> Iterator[Message]:
    rows = [cdt.CreatableRenewers("User", client_name(i)) for i in range(n)]
    yield cdt.CreateDelegationTokenRequest(None, None, rows, -1)


def of_token(make: Callable[..., Message]) -> Callable[[State, int], Iterator[Message]]:
    def asked(s: State, n: int) -> Iterator[Message]:
        yield make(s.tokens[0], 1_000)
        yield make(b"x" * n * 100, 1_000)

    return asked


def described_tokens(s: State, n: int) -> Iterator[Message]:
    yield ddt.DescribeDelegationTokenRequest(None)
    yield ddt.DescribeDelegationTokenRequest(
        [ddt.DescribeDelegationTokenOwner("User", client_name(i)) for i in range(n)]
    )


CASES: Final[dict[str, tuple[Case, ...]]] = {
    "DescribeAcls": (Case("entries", 20_000, described_acls),),
    "CreateAcls": (Case("entries", 10_000, created_acls),),
    "DeleteAcls": (Case("entries", 10_000, deleted_acls),),
    "CreateDelegationToken": (Case("renewers", LONG_GROUPS, created_token),),
    "RenewDelegationToken": (Case("bytes", BYTES // 100, of_token(rdt.RenewDelegationTokenRequest)),),
    "ExpireDelegationToken": (Case("bytes", BYTES // 100, of_token(edt.ExpireDelegationTokenRequest)),),
    "DescribeDelegationToken": (Case("tokens", LONG_GROUPS, described_tokens),),
    "DescribeClientQuotas": (Case("entities", 20_000, described_quotas),),
    "AlterClientQuotas": (Case("entities", 10_000, altered_quotas),),
    "DescribeUserScramCredentials": (Case("users", LONG_GROUPS, described_users),),
    "AlterUserScramCredentials": (Case("users", LONG_GROUPS, altered_users),),
}  # fmt: skip
"""The cases by the API's name."""
