"""Where tests can inject faults, delays and refusals. One point is before a handler, the other before its answer is
encoded.

`InterceptPoint` holds the interceptor, if one is set. Without an interceptor, this costs the read of one field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import Exchange
from muster.protocol.message import Message

OnRequest = Callable[[RequestContext, Message, Callable[[], None]], object]
"""(context, request, proceed), before the handler. The request is in its newest shape and may be changed. proceed()
runs the handler: now, later or never.
"""
OnResponse = Callable[[RequestContext, Message | None, Callable[[Message | None], None]], object]
"""(context, response, proceed), after the handler. proceed(response) encodes and sends the response, this one or
another: now, later or never. None stands for a request without an answer (Produce with acks=0). The next request
waits for `proceed` in this case too.
"""
OnWhole = Callable[[RequestContext, Message, Exchange, Callable[[Callable[[Message | None], None]], None]], object]
"""(context, request, exchange, run), in place of both. `run(respond)` runs the handler, which calls `respond` with its
answer, now or later. The client gets what `exchange` is given: an answer, parts of one, or the end.
"""


class Intercept:
    """An interceptor between the connections and the handlers.

    `wants(context)`: whether it wants a request of this API, client and connection. It is called for each request and
    may return another result each time. A request that it does not want is handled as without an interceptor. A request
    that it wants is never handled as a cached request (`api.cached_requests`).
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
    """Where the requests of one node meet an interceptor. `intercept`: the present interceptor; None means that none is
    set.
    """

    __slots__ = ("intercept",)

    def __init__(self, intercept: Intercept = NO_INTERCEPT) -> None:
        does_any = intercept.request or intercept.response or intercept.whole
        self.intercept: Intercept | None = intercept if does_any else None
