"""The audit log: one line for each refused request, as Kafka's `kafka.authorizer.logger` writes it. The log limits how
often similar lines are written (`system.logging.rate_limit`).
"""

from __future__ import annotations

from typing import cast

import structlog

from muster.coordinator.api.context import RequestContext
from muster.coordinator.security.acls import OPERATIONS, RESOURCE_TYPES
from muster.coordinator.security.standard_authorizer import Denial, java_address
from muster.protocol.api import api

log = structlog.get_logger("muster.authorizer")


def log_denial(denial: Denial) -> None:
    """Write the audit line of one refused request."""
    context = cast(RequestContext, denial.requester)
    log.info(
        "denied",
        principal=str(context.principal),
        operation=OPERATIONS.get(denial.operation, denial.operation),
        host=java_address(context.host),
        resource=f"{RESOURCE_TYPES.get(denial.resource_type, denial.resource_type)}:{denial.name}",
        request=api(context.api_key).name,
        rule=denial.rule,
    )
