"""Where faults, delays and refusals can be put: one point before a handler, one before its answer is encoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.protocol.message import Message

OnRequest = Callable[[RequestContext, Message, Callable[[], None]], object]
"""(context, request, proceed), before the handler: the request is in its newest shape and may be changed; proceed()
runs the handler: now, later or never.
"""
OnResponse = Callable[[RequestContext, Message | None, Callable[[Message | None], None]], object]
"""(context, response, proceed), after the handler: proceed(response) encodes the response, this one or another, and
sends it: now, later or never. None: the request has no answer (Produce with acks=0); the next one waits for `proceed`
all the same.
"""


class Intercept:
    """What comes between the connections and the handlers.

    `wants(context)`: whether it is to see a request of this API, client and connection. It is asked at each request and
    may answer differently each time. What it does not want is handled as if there were no interceptor; what it wants is
    never handled as a prepared request (`api.prepared`).
    """

    __slots__ = ("request", "response", "wants")

    def __init__(
        self,
        request: OnRequest | None = None,
        response: OnResponse | None = None,
        wants: Callable[[RequestContext], bool] = lambda _: True,
    ) -> None:
        self.request = request
        self.response = response
        self.wants = wants


NO_INTERCEPT: Final = Intercept(wants=lambda _: False)
