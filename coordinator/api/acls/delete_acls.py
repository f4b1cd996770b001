"""DeleteAcls: delete the access control entries that filters select (AclApis, AclControlManager)."""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.acls.refusals import Refusal, authorizer_for, closes, filter_of
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.durable import until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.acl_selection import AclSelection
from muster.coordinator.security.acls import Acl, AclFilter
from muster.coordinator.security.authorizer import Operation
from muster.coordinator.security.standard_authorizer import StandardAuthorizer
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from muster.protocol.messages.metadata_records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)

MOST_DELETED: Final = 10_000
"""One request may delete so many entries (QuorumController.MAX_RECORDS_PER_USER_OP). An entry that several filters
select counts once for each filter, because the answer repeats it.
"""
MOST_FILTERS: Final = 1_000
"""One request may have so many filters. For each filter all entries may have to be sorted again."""
_TOO_MANY: Final = f"Cannot remove more than {MOST_DELETED} acls in a single delete operation."


@in_steps(forwarded=True)
def handle_delete_acls(
    node: Node, context: RequestContext, request: DeleteAclsRequest
) -> Job[DeleteAclsResponse | None]:
    """Delete what the filters select. The answer repeats an entry under each filter that selects it."""
    filters: list[AclFilter] = []
    for row in request.filters:
        wanted = filter_of(row)
        if closes(context, wanted):
            return None
        filters.append(wanted)
        yield None
    authorizer = authorizer_for(node, context, Operation.ALTER)
    if not isinstance(authorizer, Refusal) and len(request.filters) > MOST_FILTERS:
        authorizer = Refusal(ErrorCode.POLICY_VIOLATION, f"A request may have {MOST_FILTERS} filters at most.")
    answers: list[DeleteAclsFilterResult] = []
    if isinstance(authorizer, Refusal):
        for _ in filters:
            answers.append(DeleteAclsFilterResult(*authorizer))
            yield None
        return DeleteAclsResponse(filter_results=answers)
    doomed: dict[Acl, None] = {}
    told = 0
    selection = AclSelection(authorizer.rules.ids)
    for wanted in filters:
        fault = _fault(wanted)
        if fault is not None:
            answers.append(DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=fault))
            continue
        # when the limit is exceeded, the exact number does not matter
        selected = [] if told > MOST_DELETED else (yield from selection.select(wanted))
        told += len(selected)
        if told > MOST_DELETED:
            answers.append(DeleteAclsFilterResult(error_code=ErrorCode.POLICY_VIOLATION, error_message=_TOO_MANY))
            continue
        doomed.update(dict.fromkeys(selected))
        answers.append(DeleteAclsFilterResult(error_message=None, matching_acls=[_told(acl) for acl in selected]))
        yield None
    yield from _delete(node, authorizer, doomed, answers)
    yield from until_durable(node, answers)
    return DeleteAclsResponse(filter_results=answers)


def _fault(wanted: AclFilter) -> str | None:
    if wanted.is_unknown_pattern:
        return "Unknown patternFilter."
    return "Unknown entryFilter." if wanted.is_unknown_entry else None


def _told(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(0, None, *acl)


def _delete(
    node: Node, authorizer: StandardAuthorizer, doomed: dict[Acl, None], answers: list[DeleteAclsFilterResult]
) -> Job[None]:
    """Delete all of them in one batch of the metadata log. Entries that another request has deleted meanwhile are
    skipped.
    """
    ids = authorizer.rules.ids
    records: list[Message] = [RemoveAccessControlEntryRecord(acl_id) for acl in doomed for acl_id in ids.get(acl, ())]
    if not records:
        return
    try:
        yield from node.topics.writing(records)
    except ApiError as refusal:
        for answer in answers:
            if not answer.error_code:
                answer.error_code, answer.error_message = refusal.error_code, refusal.message
                answer.matching_acls = ()
