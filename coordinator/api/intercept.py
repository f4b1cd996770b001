"""Where faults, delays and refusals can be put: one point before a handler, one before its answer is encoded.

`InterceptPoint` is where it is asked whether there is one. It costs a look at one field while there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import Exchange
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
OnWhole = Callable[[RequestContext, Message, Exchange, Callable[[Callable[[Message | None], None]], None]], object]
"""(context, request, exchange, run), in place of both: run(respond) runs the handler, which calls `respond` with its
answer, now or later. What `exchange` is told is what the client gets: an answer, parts of one, or the end.
"""


class Intercept:
    """What comes between the connections and the handlers.

    `wants(context)`: whether it is to see a request of this API, client and connection. It is asked at each request and
    may answer differently each time. What it does not want is handled as if there were no interceptor; what it wants is
    never handled as a prepared request (`api.prepared`).
    """

    __slots__ = ("request", "response", "wants", "whole")

    def __init__(
        self,
        request: OnRequest | None = None,
        response: OnResponse | None = None,
        wants: Callable[[RequestContext], bool] = lambda _: True,
        *,
        whole: OnWhole | None = None,
    ) -> None:
        self.request = request
        self.response = response
        self.wants = wants
        self.whole = whole


NO_INTERCEPT: Final = Intercept(wants=lambda _: False)


class InterceptPoint:
    """Where the requests of one node meet an interceptor, if there is one now (`intercept`; None: there is none)."""

    __slots__ = ("intercept",)

    def __init__(self, intercept: Intercept = NO_INTERCEPT) -> None:
        does_any = intercept.request or intercept.response or intercept.whole
        self.intercept: Intercept | None = intercept if does_any else None
