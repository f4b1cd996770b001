"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken (KIP-48, KIP-373).

As on Kafka, a client must have authenticated by SASL or by a certificate, and not by a delegation token. Tokens that
have expired are removed every `delegation.token.expiry.check.interval.ms`.
"""

from __future__ import annotations

from typing import Final

import structlog

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import AnswerSize, until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.authorizer import ANONYMOUS, KafkaPrincipal, Operation, ResourceType
from muster.coordinator.security.sasl.delegation_tokens import (
    MAX_TOKENS,
    DelegationTokens,
    belongs_to,
    has_expired,
    is_user,
    may_renew,
    principal,
)
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job, JobQueue
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.topics import Topics
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message, copied
from muster.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from muster.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from muster.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from muster.protocol.messages.metadata_records.delegation_token_record import DelegationTokenRecord
from muster.protocol.messages.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from muster.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

MAX_RENEWERS: Final = 100
MAX_NAME_BYTES: Final = 1_024
"""The longest name of an owner or a renewer, in bytes."""
MAX_CHARACTERS: Final = 16_000_000
"""The most characters of all names in all tokens. Tokens are in memory, and one answer may list all of them."""
NO_TIME: Final = -1
LAST_MS: Final = (1 << 63) - 1
_ROW_BYTES: Final = 160
Changed = RenewDelegationTokenResponse | ExpireDelegationTokenResponse
log = structlog.get_logger("muster.topics")


@in_steps(forwarded=True)
def handle_create_delegation_token(
    node: Node, context: RequestContext, request: CreateDelegationTokenRequest
) -> Job[CreateDelegationTokenResponse]:
    """Create a token for the client itself, or for another user if the client may do this."""
    requester = context.principal
    owner = requester
    if request.owner_principal_name:
        owner = KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)
    answer = CreateDelegationTokenResponse(0, *owner, *requester)
    answer.error_code = _refusal_of(node, context, request, owner)
    if answer.error_code:
        answer.issue_timestamp_ms = answer.expiry_timestamp_ms = answer.max_timestamp_ms = NO_TIME
        return answer
    tokens: DelegationTokens | None = node.delegation_tokens
    if tokens is None:
        answer.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return answer
    names = [owner.name, *(one.principal_name for one in request.renewers)]
    if len(names) > MAX_RENEWERS + 1 or len(tokens.now) >= MAX_TOKENS:
        answer.error_code = ErrorCode.POLICY_VIOLATION
        return answer
    if any(len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES for name in names):
        answer.error_code = ErrorCode.INVALID_REQUEST
        return answer
    now_ms = node.clock.now().wall_ms
    lifetime_ms = tokens.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = min(now_ms + lifetime_ms, LAST_MS)
    renewers = [str(KafkaPrincipal(one.principal_type, one.principal_name)) for one in request.renewers]
    characters = len(str(owner)) + len(str(requester)) + sum(map(len, renewers))
    if node.topics.state.token_characters + characters > MAX_CHARACTERS:
        answer.error_code = ErrorCode.POLICY_VIOLATION
        answer.issue_timestamp_ms = answer.expiry_timestamp_ms = answer.max_timestamp_ms = NO_TIME
        return answer
    record = DelegationTokenRecord(
        str(owner), str(requester), renewers, now_ms, max_ms, min(max_ms, now_ms + tokens.renewal_ms),
        uuids.as_text(node.draw_uuid()),
    )  # fmt: skip
    yield from _write(node, record, answer)
    if not answer.error_code:
        answer.issue_timestamp_ms, answer.max_timestamp_ms = record.issue_timestamp, record.max_timestamp
        answer.expiry_timestamp_ms = record.expiration_timestamp
        answer.token_id, answer.hmac = record.token_id, tokens.hmac_of(record.token_id)
    return answer


def _refusal_of(
    node: Node, context: RequestContext, request: CreateDelegationTokenRequest, owner: KafkaPrincipal
) -> int:
    if not _may_ask(context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != context.principal and not node.authorizer.allows(
        context, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if not all(is_user(one.principal_type) for one in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return 0


def _may_ask(context: RequestContext) -> bool:
    authentication = context.channel.authentication
    is_known = authentication.sasl is not None or context.principal != ANONYMOUS
    return is_known and not authentication.by_token


@in_steps(forwarded=True)
def handle_renew_delegation_token(
    node: Node, context: RequestContext, request: RenewDelegationTokenRequest
) -> Job[RenewDelegationTokenResponse]:
    """Extend the lifetime of a token, at most to `delegation.token.max.lifetime.ms`."""
    answer = RenewDelegationTokenResponse()
    now_ms = node.clock.now().wall_ms
    asked = _token_of(node, context, request.hmac, answer)
    if asked is None:
        return answer
    tokens, found = asked
    if has_expired(found, now_ms):
        answer.error_code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    elif not may_renew(found, context.principal):
        answer.error_code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    else:
        period_ms = tokens.renewal_ms
        if request.renew_period_ms > 0:
            period_ms = min(period_ms, request.renew_period_ms)
        yield from _expire_at(node, found, min(found.max_timestamp, now_ms + period_ms), answer)
    return answer


@in_steps(forwarded=True)
def handle_expire_delegation_token(
    node: Node, context: RequestContext, request: ExpireDelegationTokenRequest
) -> Job[ExpireDelegationTokenResponse]:
    """Let a token expire after a time, or now if the time is negative."""
    answer = ExpireDelegationTokenResponse()
    now_ms = node.clock.now().wall_ms
    asked = _token_of(node, context, request.hmac, answer)
    if asked is None:
        return answer
    _, found = asked
    if not may_renew(found, context.principal):
        answer.error_code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    elif request.expiry_time_period_ms < 0:
        yield from _write(node, RemoveDelegationTokenRecord(found.token_id), answer)
        if not answer.error_code:
            answer.expiry_timestamp_ms = now_ms
    elif has_expired(found, now_ms):
        answer.error_code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    else:
        yield from _expire_at(node, found, min(found.max_timestamp, now_ms + request.expiry_time_period_ms), answer)
    return answer


def _token_of(
    node: Node, context: RequestContext, hmac: bytes, answer: Changed
) -> tuple[DelegationTokens, DelegationTokenRecord] | None:
    """All tokens, and the token to change. None means that `answer` has an error."""
    if not _may_ask(context):
        answer.error_code, answer.expiry_timestamp_ms = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME
        return None
    tokens: DelegationTokens | None = node.delegation_tokens
    if tokens is None:
        answer.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return None
    found = tokens.of_hmac(bytes(hmac))
    if found is None:
        answer.error_code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        return None
    return tokens, found


def _expire_at(node: Node, found: DelegationTokenRecord, wall_ms: int, answer: Changed) -> Job[None]:
    record = copied(found)
    record.expiration_timestamp = wall_ms
    yield from _write(node, record, answer)
    if not answer.error_code:
        answer.expiry_timestamp_ms = wall_ms


def _write(node: Node, record: Message, answer: CreateDelegationTokenResponse | Changed) -> Job[None]:
    try:
        yield from node.topics.writing([record])
    except ApiError as refusal:
        answer.error_code = refusal.error_code
    else:
        yield from until_durable(node, [answer])


@in_steps
def handle_describe_delegation_token(
    node: Node, context: RequestContext, request: DescribeDelegationTokenRequest
) -> Job[DescribeDelegationTokenResponse]:
    """Answer with the tokens of the named owners, or of all owners, that the client may see."""
    if not _may_ask(context):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    tokens: DelegationTokens | None = node.delegation_tokens
    if tokens is None:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    wanted = None
    if request.owners is not None:
        wanted = {str(KafkaPrincipal(one.principal_type, one.principal_name)) for one in request.owners}
    answer_size = AnswerSize(node, context)
    rows: list[DescribedDelegationToken] = []
    for record in list(tokens.now.values()) if wanted is None or wanted else ():
        yield answer_size.pause()
        people = {record.owner, record.requester, *record.renewers}
        if (wanted is not None and wanted.isdisjoint(people)) or not _may_see(node, context, record):
            continue
        if not answer_size.add(_ROW_BYTES + sum(map(len, (record.owner, record.requester, *record.renewers)))):
            return DescribeDelegationTokenResponse(ErrorCode.INVALID_REQUEST)
        rows.append(
            DescribedDelegationToken(
                *principal(record.owner), *principal(record.requester), record.issue_timestamp,
                record.expiration_timestamp, record.max_timestamp, record.token_id, tokens.hmac_of(record.token_id),
                [DescribedDelegationTokenRenewer(*principal(one)) for one in record.renewers],
            )
        )  # fmt: skip
    return DescribeDelegationTokenResponse(0, rows)


def _may_see(node: Node, context: RequestContext, record: DelegationTokenRecord) -> bool:
    allows = node.authorizer.allows
    return (
        belongs_to(record, context.principal)
        or allows(context, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, record.token_id)
        or allows(context, Operation.DESCRIBE_TOKENS, ResourceType.USER, record.owner)
    )


class TokenExpiry:
    """Removes delegation tokens that have expired, every `delegation.token.expiry.check.interval.ms`."""

    def __init__(self, topics: Topics, clock: Clock, job_queue: JobQueue, interval_ms: int) -> None:
        self._topics = topics
        self._job_queue = job_queue
        self._clock = clock
        self._interval_ms = interval_ms
        self._timer: Timer
        self._wait()

    def stop(self) -> None:
        """Stop removing tokens."""
        self._timer.cancel()

    def _wait(self) -> None:
        due_ms = self._clock.mono_ms() + self._interval_ms
        self._timer = self._clock.call_at(due_ms, self._sweep, self._interval_ms)

    def _sweep(self) -> None:
        self._job_queue.run(self._sweeping(), lambda _: self._wait(), self)

    closed = False

    def fault(self, error: Exception) -> None:
        """See `jobs.Owner`."""
        log.error("expired delegation tokens cannot be removed, because of a bug in the server", exc_info=error)

    def _sweeping(self) -> Job[None]:
        wall_ms = self._clock.now().wall_ms
        over = [record for record in self._topics.state.tokens.values() if has_expired(record, wall_ms)]
        try:
            if over:
                yield from self._topics.writing([RemoveDelegationTokenRecord(record.token_id) for record in over])
        except ApiError as refusal:
            log.error("expired delegation tokens cannot be removed now", why=refusal.message)
        else:
            for record in over:
                log.info("a delegation token has expired", token=record.token_id, owner=record.owner)
