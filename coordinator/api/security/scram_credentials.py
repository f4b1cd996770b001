"""DescribeUserScramCredentials and AlterUserScramCredentials: the users of SCRAM, in the metadata log (KIP-554).

The client salts a password itself, so none comes here. What is kept can check a password and is never told.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.answer_size import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.durable import until_durable
from muster.coordinator.api.node import Node, in_slices, to_the_end
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.security.sasl.scram import BY_TYPE, MAX_ITERATIONS, MIN_ITERATIONS
from muster.coordinator.slices import Job
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from muster.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from muster.protocol.messages.metadata_records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from muster.protocol.messages.metadata_records.user_scram_credential_record import UserScramCredentialRecord

MOST_CREDENTIALS: Final = 100_000
"""They are kept in memory."""
MOST_NAME_BYTES: Final = 1_024
"""Of a user's name."""
MOST_SALT_BYTES: Final = 1_024
MOST_REFUSED: Final = 1_000
"""Rows of an answer that refuses all."""
_ROW_BYTES: Final = 30
_TWICE: Final = "A user credential cannot be altered twice in the same request"


@in_slices
def handle_describe_user_scram_credentials(
    node: Node, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Job[DescribeUserScramCredentialsResponse]:
    """Which mechanisms each user has, and with how many iterations; all users when none is named."""
    if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # without names, as on Kafka
        refused = [DescribeUserScramCredentialsResult("", code, None)] * min(len(request.users or ()), MOST_REFUSED)
        return DescribeUserScramCredentialsResponse(0, code, None, refused)
    credentials = node.topics.state.scram
    times: dict[str, int] = {}
    for name in [user.name for user in request.users] if request.users else [name for name, _ in credentials]:
        times[name] = times.get(name, 0) + 1
        yield None
    room = AnswerSize()
    results: list[DescribeUserScramCredentialsResult] = []
    for name, count in times.items():
        yield None
        if not room.take(_ROW_BYTES + len(name)):
            results.append(DescribeUserScramCredentialsResult(name, TOO_LARGE, TOO_LARGE_TEXT))
            continue
        found = [(kind, credentials[name, kind]) for kind in BY_TYPE if (name, kind) in credentials]
        if request.users and count > 1:
            what = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            results.append(DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, what))
        elif not found:
            what = f"Attempt to describe a user credential that does not exist: {name}"
            results.append(DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, what))
        else:
            infos = [CredentialInfo(kind, one.iterations) for kind, one in found]
            results.append(DescribeUserScramCredentialsResult(name, credential_infos=infos))
    return DescribeUserScramCredentialsResponse(results=results)


@to_the_end
def handle_alter_user_scram_credentials(
    node: Node, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Job[AlterUserScramCredentialsResponse]:
    """Set and remove credentials. Of a user that is named twice none is changed; as on Kafka the first fault counts."""
    is_allowed = node.authorizer.allows(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    changes: dict[str, ScramCredentialDeletion | ScramCredentialUpsertion] = {}
    refused: dict[str, ApiError] = {}
    rows: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    for row in rows:
        yield None
        if row.name in refused:
            continue
        try:
            if not is_allowed:
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                raise ApiError(code, error_message(code))
            if changes.pop(row.name, None) is not None:
                raise ApiError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            _check(node, row, len(changes))
        except ApiError as refusal:
            refused[row.name] = refusal
        else:
            changes[row.name] = row
    done: list[AlterUserScramCredentialsResult] = []
    for name, row in changes.items():
        yield None
        try:
            node.topics.write_records([_record(row)])
        except ApiError as refusal:
            refused[name] = refusal
        else:
            done.append(AlterUserScramCredentialsResult(name, 0, None))
    results = [AlterUserScramCredentialsResult(name, one.error_code, one.message) for name, one in refused.items()]
    yield from until_durable(node, done)
    return AlterUserScramCredentialsResponse(0, [*done, *results])


def _check(node: Node, row: ScramCredentialDeletion | ScramCredentialUpsertion, more: int) -> None:
    """ScramControlManager's checks. Raises `ApiError`."""
    unacceptable = ErrorCode.UNACCEPTABLE_CREDENTIAL
    if not row.name:
        raise ApiError(unacceptable, "Username must not be empty")
    if row.mechanism not in BY_TYPE:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    credentials = node.topics.state.scram
    if isinstance(row, ScramCredentialDeletion):
        if (row.name, row.mechanism) not in credentials:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return
    if row.iterations < MIN_ITERATIONS:
        raise ApiError(unacceptable, "Too few iterations")
    if row.iterations > MAX_ITERATIONS:
        raise ApiError(unacceptable, "Too many iterations")
    if len(row.name.encode()) > MOST_NAME_BYTES or len(row.salt) > MOST_SALT_BYTES:
        raise ApiError(unacceptable, f"A name and a salt may have {MOST_NAME_BYTES} bytes.")
    if len(credentials) + more >= MOST_CREDENTIALS and (row.name, row.mechanism) not in credentials:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"There are {MOST_CREDENTIALS} credentials already.")


def _record(
    row: ScramCredentialDeletion | ScramCredentialUpsertion,
) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    if isinstance(row, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(row.name, row.mechanism)
    made = BY_TYPE[row.mechanism].credential(bytes(row.salt), bytes(row.salted_password), row.iterations)
    return UserScramCredentialRecord(
        row.name, row.mechanism, made.salt, made.stored_key, made.server_key, made.iterations
    )
