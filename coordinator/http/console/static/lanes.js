// Members by time, from the events of one group. Pure: no element is made here.

const GONE = { member_left: "left", member_expired: "expired", member_removed: "removed" };

// What stays the same when a process returns under another member id.
const slotOf = (member) => (member.instance ? `instance ${member.instance}` : `${member.client_id ?? ""} ${member.host ?? ""}`);

// Stays: {member, slot, from, to, how, silent, holds: [{from, to, assignment}]}. Rebalances: {id, from, to, text, cause}.
// `members`: those of now. `from`, `until`: the shown time.
export function lanes(events, members, from, until) {
  const open = new Map();
  const stays = [];
  const rebalances = [];
  let pending = null;
  const begin = (member, at) => {
    const stay = { member, slot: slotOf(member), from: at, to: null, how: null, silent: null, holds: [] };
    open.set(member.member, stay);
    stays.push(stay);
    return stay;
  };
  const end = (id, at, how, silent = null) => {
    const stay = open.get(id);
    if (!stay) return;
    open.delete(id);
    stay.to = at;
    stay.how = how;
    stay.silent = silent;
    if (stay.holds.length) stay.holds.at(-1).to ??= at;
  };
  for (const event of events) {
    const at = event.time;
    if (event.kind === "member_joined") begin(event.member, at);
    else if (event.kind === "member_replaced") { end(event.replaced, at, "replaced"); begin(event.member, at); }
    else if (event.kind in GONE) {
      if (!open.has(event.member.member)) begin(event.member, from);
      end(event.member.member, at, GONE[event.kind], event.kind === "member_expired" ? at - event.member.session_timeout_ms : null);
    } else if (event.kind === "rebalance_started" || event.kind === "epoch_bumped") {
      if (event.kind === "epoch_bumped" && !event.members) continue;
      pending ??= { id: event.id, from: at, to: null, text: event.text, cause: event.cause };
    } else if (event.kind === "rebalance_completed" || event.kind === "epoch_reconciled") {
      const began = event.took_ms === null || event.took_ms === undefined ? (pending?.from ?? at) : at - event.took_ms;
      rebalances.push({ id: event.id, from: began, to: at, text: event.text, cause: event.cause });
      pending = null;
      if (event.kind === "rebalance_completed") held(event, at);
    } else if (event.kind === "group_emptied" || event.kind === "group_deleted") {
      pending = null;
      for (const id of [...open.keys()]) end(id, at, "left");
    }
  }
  function held(event, at) {
    for (const one of event.members) {
      const stay = open.get(one.member) ?? begin(one, from);
      if (stay.holds.length) stay.holds.at(-1).to ??= at;
      stay.holds.push({ from: at, to: null, assignment: one.assignment });
    }
  }
  if (pending) rebalances.push(pending);
  for (const one of members ?? []) {
    const stay = open.get(one.member) ?? begin(one, from);
    if (!stay.holds.length && one.assignment && Object.keys(one.assignment).length) {
      stay.holds.push({ from: Math.max(stay.from, rebalances.at(-1)?.to ?? stay.from), to: null, assignment: one.assignment });
    }
  }
  // a member that comes after another one of its slot stands in the same row
  const rows = [];
  for (const stay of stays) {
    if ((stay.to ?? until) < from || stay.from > until) continue;
    const row = rows.find(([slot, earlier]) => slot === stay.slot && earlier.at(-1).to !== null && earlier.at(-1).to <= stay.from);
    if (row) row[1].push(stay);
    else rows.push([stay.slot, [stay]]);
  }
  return { rows, rebalances: rebalances.filter((one) => (one.to ?? until) >= from && one.from <= until) };
}
