"""The one point before a handler and the one before an answer is encoded, where faults and delays can be put later.

No-ops today: `before_handler` and `before_encode` let everything pass.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.coordinator.api.context import RequestContext
from muster.protocol.message import Message


class Intercept:
    """What may come between the connection and the handlers; `None` in either place means that nothing does.

    `request(context, request, proceed)`: proceed() runs the handler, now, later or never.
    `response(context, response, proceed)`: proceed(response) encodes and sends it, now, later, changed or never.
    """

    __slots__ = ("request", "response")

    def __init__(
        self,
        request: Callable[[RequestContext, Message, Callable[[], None]], None] | None = None,
        response: Callable[[RequestContext, Message | None, Callable[[Message | None], None]], None] | None = None,
    ) -> None:
        self.request = request
        self.response = response


NO_INTERCEPT = Intercept()
