"""SaslHandshake and SaslAuthenticate: a client authenticates (KIP-43, KIP-152), and later re-authenticates (KIP-368).

On a listener with SASL, `net.authentication_gate` accepts no other request before the client has authenticated. As on
Kafka, a rejected client gets its answer after a delay, and then its connection is closed.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.node import Node, Respond
from muster.coordinator.security.authentication import (
    AUTHENTICATE,
    CHALLENGED,
    COMPLETE,
    FAILED,
    HANDSHAKE,
    MECHANISM_CHOSEN,
    REAUTHENTICATE,
    REJECTED,
    Authentication,
)
from muster.coordinator.security.authorizer import USER, KafkaPrincipal
from muster.coordinator.security.sasl.exchange import AuthenticationFailed, Exchange, Refused
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from muster.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

MIN_REAUTH_INTERVAL_MS: Final = 1_000
"""The shortest time between two authentications (KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS)."""
_ILLEGAL: Final = "SaslAuthenticate request received after successful authentication"


def handle_sasl_handshake(node: Node, context: RequestContext, request: SaslHandshakeRequest, respond: Respond) -> None:
    """Choose a mechanism. A client that is authenticated already begins to re-authenticate."""
    authentication = context.channel.authentication
    sasl = authentication.sasl
    if sasl is None or not _may_begin(authentication, node.clock.mono_ms()):
        respond(SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
        return
    names = list(sasl.mechanisms)
    begin = sasl.mechanisms.get(request.mechanism)
    if begin is None:
        why = "the client asks for a mechanism that is not enabled"
        _reject(node, context, respond, SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, names), why)
        return
    if authentication.state is COMPLETE:
        authentication.began_ms = node.clock.mono_ms()
        if request.mechanism != authentication.mechanism:
            authentication.exchange = Refused(
                f"SASL mechanism '{request.mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{authentication.mechanism}'"
            )
        else:
            authentication.exchange = begin()
    else:
        authentication.exchange, authentication.mechanism = begin(), request.mechanism
        authentication.takes_raw = context.api_version == 0
    authentication.happens(MECHANISM_CHOSEN)
    respond(SaslHandshakeResponse(0, names))


def _may_begin(authentication: Authentication, now_ms: int) -> bool:
    if authentication.state is COMPLETE:
        began_ms = authentication.began_ms
        return began_ms is None or now_ms - began_ms >= MIN_REAUTH_INTERVAL_MS
    return authentication.state is HANDSHAKE


def handle_sasl_authenticate(
    node: Node, context: RequestContext, request: SaslAuthenticateRequest, respond: Respond
) -> None:
    """Give a token to the mechanism."""
    authentication = context.channel.authentication
    exchange = authentication.exchange
    if exchange is None:
        respond(SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, _ILLEGAL))
        return
    again = authentication.state is REAUTHENTICATE
    sasl = authentication.sasl
    assert sasl is not None
    try:
        # this limit is for the first authentication; a later token may be as large as any request
        if len(request.auth_bytes) > sasl.max_receive_bytes:
            raise AuthenticationFailed
        token = exchange.evaluate(bytes(request.auth_bytes))
    except AuthenticationFailed as failure:
        kind = "re-authentication" if again else "authentication"
        message = failure.answer or (
            f"Authentication failed during {kind} due to invalid credentials with SASL mechanism "
            f"{authentication.mechanism}"
        )
        _reject(node, context, respond, _failed(message), message)
        return
    if not exchange.is_complete:
        authentication.happens(CHALLENGED)
        respond(SaslAuthenticateResponse(auth_bytes=token))
        return
    before, principal = authentication.principal, KafkaPrincipal(USER, exchange.user)
    complete(authentication, exchange, node.clock.now().wall_ms)
    if authentication.state is FAILED:
        message = (
            f"Cannot change principals during re-authentication from {before.type}.{before.name}: "
            f"{principal.type}.{principal.name}"
        )
        _reject(node, context, respond, _failed(message), "the client re-authenticates as another principal")
        return
    respond(SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=authentication.lifetime_ms or 0))


def complete(authentication: Authentication, exchange: Exchange, wall_ms: int) -> None:
    """End a successful exchange. The client is authenticated until the time at which it has to re-authenticate."""
    authentication.exchange = None
    sasl = authentication.sasl
    lifetime_ms = None if sasl is None else sasl.max_reauth_ms.get(authentication.mechanism) or None
    if exchange.expires_ms is not None:
        # a token that expired within the allowed clock skew is valid only at this moment
        left_ms = max(exchange.expires_ms - wall_ms, 0)
        lifetime_ms = left_ms if lifetime_ms is None else min(lifetime_ms, left_ms)
    authentication.lifetime_ms = lifetime_ms
    authentication.by_token = exchange.by_token
    authentication.proven(KafkaPrincipal(USER, exchange.user))


def _failed(message: str) -> Message:
    return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, message)


def _reject(node: Node, context: RequestContext, respond: Respond, response: Message, why: str) -> None:
    channel = context.channel
    authentication = channel.authentication
    authentication.exchange = None

    def end() -> None:
        if channel.closed:
            return
        respond(response)
        if authentication.state in (HANDSHAKE, AUTHENTICATE, REAUTHENTICATE):
            authentication.happens(REJECTED)
        channel.end(
            CloseConnection(
                "the authentication failed", listener=channel.listener, mechanism=authentication.mechanism, because=why
            )
        )

    assert authentication.sasl is not None
    node.clock.machine.call_at(node.clock.machine.mono_ms() + authentication.sasl.failure_delay_ms, end)
