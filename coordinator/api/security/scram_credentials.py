"""DescribeUserScramCredentials and AlterUserScramCredentials: the SCRAM users in the metadata log (KIP-554).

The client salts a password, so the server gets no password. The stored credentials can verify a password. No answer
shows credentials.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import (
    MAX_ANSWER_BYTES,
    TOO_LARGE,
    TOO_LARGE_TEXT,
    AnswerSize,
    in_hash_order,
    until_durable,
)
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.security.sasl.scram import BY_TYPE, MAX_ITERATIONS, MIN_ITERATIONS
from muster.coordinator.system.jobs import Job
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

MAX_CREDENTIALS: Final = 100_000
"""The most credentials in a cluster, because all credentials are in memory."""
MAX_NAME_BYTES: Final = 1_024
"""The longest name of a user, in bytes."""
MAX_SALT_BYTES: Final = 1_024
MAX_REFUSED: Final = 1_000
"""The most rows of an answer that refuses all rows."""
_ROW_BYTES: Final = 30


@in_steps
def handle_describe_user_scram_credentials(
    node: Node, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Job[DescribeUserScramCredentialsResponse]:
    """Answer with the mechanisms and iterations of the named users, or of all users if the request names no user."""
    if not node.authorizer.allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # the answer has no names, as on Kafka
        refused = [DescribeUserScramCredentialsResult("", code, None)] * min(len(request.users or ()), MAX_REFUSED)
        return DescribeUserScramCredentialsResponse(0, code, None, refused)
    credentials = node.topics.state.scram
    times: dict[str, int] = {}
    size = 0
    for name in [user.name for user in request.users] if request.users else [name for name, _ in credentials]:
        if name not in times:
            size += _ROW_BYTES + len(name)
        times[name] = times.get(name, 0) + 1
        yield None
    if size > MAX_ANSWER_BYTES and not request.users:
        return DescribeUserScramCredentialsResponse(0, TOO_LARGE, TOO_LARGE_TEXT)
    # Each requested name is in the answer, in the request's order. Error texts above the limit are left out.
    answer_size = AnswerSize(node, context, max(MAX_ANSWER_BYTES - size, 0))
    results: list[DescribeUserScramCredentialsResult] = []
    while times:  # this also frees the rows in steps
        name, count = times.popitem()
        yield answer_size.pause()
        found = [(kind, credentials[name, kind]) for kind in BY_TYPE if (name, kind) in credentials]
        infos = [CredentialInfo(kind, one.iterations) for kind, one in found]
        code, what = 0, ""
        if request.users and count > 1:
            code = ErrorCode.DUPLICATE_RESOURCE
            what = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        elif not found:
            code = ErrorCode.RESOURCE_NOT_FOUND
            what = f"Attempt to describe a user credential that does not exist: {name}"
        message = what if answer_size.add(len(what)) else None  # the size of the user's name is already counted above
        results.append(DescribeUserScramCredentialsResult(name, code, message, [] if code else infos))
    results.reverse()
    return DescribeUserScramCredentialsResponse(results=results)


@in_steps(forwarded=True)
def handle_alter_user_scram_credentials(
    node: Node, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Job[AlterUserScramCredentialsResponse]:
    """Set and remove credentials. A user that is named twice is not changed: as on Kafka, the first error counts."""
    is_allowed = node.authorizer.allows(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    changes: dict[str, ScramCredentialDeletion | ScramCredentialUpsertion] = {}
    refused: dict[str, _Fault] = {}
    rows: Iterable[ScramCredentialDeletion | ScramCredentialUpsertion] = chain(request.deletions, request.upsertions)
    for row in rows:
        yield None
        name = row.name
        if name in refused:
            continue
        fault = _NOT_ALLOWED
        if is_allowed:
            was_named = changes.pop(name, None) is not None
            fault = _TWICE if was_named else _fault(node, row, len(changes))
        if fault is None:
            changes[name] = row
        else:
            refused[name] = fault
    done: list[AlterUserScramCredentialsResult] = []
    for name, row in changes.items():
        yield None
        try:
            yield from node.topics.writing([_record(row)])
        except ApiError as refusal:
            refused[name] = refusal.error_code, refusal.message
        else:
            done.append(AlterUserScramCredentialsResult(name, 0, None))
    results: list[AlterUserScramCredentialsResult] = []
    for name in in_hash_order(refused):
        code, what = refused[name]
        results.append(AlterUserScramCredentialsResult(name, code, what))
        yield None
    yield from until_durable(node, done)
    return AlterUserScramCredentialsResponse(0, [*done, *results])


_Fault = tuple[int, str | None]
"""An error and its text. (An exception would keep its stack frame in memory.)"""
_NOT_ALLOWED: Final[_Fault | None] = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    error_message(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
)
_TWICE: Final = ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
_BAD: Final = ErrorCode.UNACCEPTABLE_CREDENTIAL


def _fault(node: Node, row: ScramCredentialDeletion | ScramCredentialUpsertion, more: int) -> _Fault | None:
    """The error that Kafka's ScramControlManager finds in a row, or None."""
    if not row.name:
        return _BAD, "Username must not be empty"
    if row.mechanism not in BY_TYPE:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    credentials = node.topics.state.scram
    if isinstance(row, ScramCredentialDeletion):
        if (row.name, row.mechanism) not in credentials:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return None
    if row.iterations < MIN_ITERATIONS:
        return _BAD, "Too few iterations"
    if row.iterations > MAX_ITERATIONS:
        return _BAD, "Too many iterations"
    if len(row.name.encode()) > MAX_NAME_BYTES or len(row.salt) > MAX_SALT_BYTES:
        return _BAD, f"A name and a salt may have {MAX_NAME_BYTES} bytes."
    if len(credentials) + more >= MAX_CREDENTIALS and (row.name, row.mechanism) not in credentials:
        return ErrorCode.POLICY_VIOLATION, f"There are {MAX_CREDENTIALS} credentials already."
    return None


def _record(
    row: ScramCredentialDeletion | ScramCredentialUpsertion,
) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    if isinstance(row, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(row.name, row.mechanism)
    made = BY_TYPE[row.mechanism].credential(bytes(row.salt), bytes(row.salted_password), row.iterations)
    return UserScramCredentialRecord(
        row.name, row.mechanism, made.salt, made.stored_key, made.server_key, made.iterations
    )
