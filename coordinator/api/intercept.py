"""Where tests can inject faults, delays and refusals: around the handler of a decoded request.

`InterceptPoint` holds the interceptor, if one is set. Without an interceptor, this costs the read of one field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Respond
from muster.protocol.message import Message

Run = Callable[[Respond], object]
"""Runs the handler, which gives its response to the argument, now or later. None means that no answer is sent."""
InterceptRequest = Callable[[RequestContext, Message, Any, Run], object]
"""(context, request, exchange, run), in place of the handler. The request has its newest shape and may be changed. The
usual way is `run(exchange)`, now or later. The client gets what `exchange` is given (`api.exchange.Exchange`). The next
request of the connection waits for that.
"""


class Intercept:
    """An interceptor between the connections and the handlers.

    `wants(context)` is called for each request, and may answer differently each time. A request that it wants is never
    handled as a cached request. Other requests are handled as without an interceptor.
    """

    __slots__ = ("request", "wants")

    def __init__(self, request: InterceptRequest, wants: Callable[[RequestContext], bool] = lambda _: True) -> None:
        self.request = request
        self.wants = wants


NO_INTERCEPT: Final = Intercept(lambda _, __, exchange, run: run(exchange), wants=lambda _: False)


class InterceptPoint:
    """Where the requests of one node meet an interceptor. `intercept`: the present one, or None."""

    __slots__ = ("intercept",)

    def __init__(self, intercept: Intercept = NO_INTERCEPT) -> None:
        self.intercept: Intercept | None = None if intercept is NO_INTERCEPT else intercept
