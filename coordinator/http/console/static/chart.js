// Draws members by time.

import { h, s } from "./dom.js";
import { clock, duration, owned, short } from "./format.js";

const MOST = 60;
const ROW = 24;
const NARROW = 640;
const TOP = 22;
const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 21600].map((one) => one * 1000);
const HOW = { left: "left", expired: "sent no heartbeat for its session timeout", removed: "was removed", replaced: "came back under another id" };

// `width`: the pixels of the place. In a narrow one, each name stands above its row.
export function chart({ rows, rebalances }, from, until, chosen, choose, width) {
  const isNarrow = width < NARROW;
  const names = isNarrow ? 0 : 190;
  const row = isNarrow ? ROW + 15 : ROW;
  const shown = rows.slice(0, MOST);
  const height = TOP + shown.length * row + 8;
  const x = (ms) => names + ((Math.min(Math.max(ms, from), until) - from) / Math.max(until - from, 1)) * (width - names - 6);
  const parts = [];
  const step = STEPS.find((one) => (until - from) / one <= (isNarrow ? 4 : 9)) ?? STEPS.at(-1);
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) {
    parts.push(s("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP - 4, y2: height }),
      s("text", { class: "axis", x: x(at), y: 12, "text-anchor": x(at) > width - 32 ? "end" : "middle" }, clock(at).slice(0, step < 60000 ? 8 : 5)));
  }
  shown.forEach(([, stays], index) => {
    const top = TOP + index * row + 4;
    const y = top + row - ROW;
    const { member } = stays.at(-1);
    const name = member.instance ?? member.client_id ?? short(member.member);
    const most = isNarrow ? Math.floor(width / 8) : 26;
    parts.push(s("text", { x: 0, y: top + (isNarrow ? 10 : 12) }, name.length > most ? `${name.slice(0, most - 1)}…` : name, s("title", null, `${member.instance ?? ""} ${member.member} ${member.client_id ?? ""} ${member.host ?? ""}`)));
    for (const stay of stays) {
      const to = stay.to ?? until;
      parts.push(bar("stay", x(stay.from), x(to), y, `${short(stay.member.member)}: from ${clock(stay.from)} to ${stay.to ? clock(stay.to) : "now"}`));
      for (const hold of stay.holds) {
        if (owned(hold.assignment) === "no partitions") continue;
        parts.push(bar("hold", x(hold.from), x(hold.to ?? to), y, `${short(stay.member.member)} has ${owned(hold.assignment)} from ${clock(hold.from)} to ${hold.to ? clock(hold.to) : stay.to ? clock(stay.to) : "now"}`));
      }
      if (stay.silent !== null) parts.push(bar("silent", x(stay.silent), x(to), y, `${short(stay.member.member)} was silent for ${duration(to - stay.silent)}`));
      if (stay.from > from) parts.push(s("path", { class: "joined", d: `M${x(stay.from)} ${y}l7 7.5l-7 7.5z` }, s("title", null, `${short(stay.member.member)} joined at ${clock(stay.from)}`)));
      if (stay.to !== null) parts.push(s("path", { class: "gone", d: `M${x(to) - 4} ${y + 3}l8 9m0 -9l-8 9` }, s("title", null, `${short(stay.member.member)} ${HOW[stay.how]} at ${clock(to)}`)));
    }
  });
  for (const one of rebalances) {
    const left = x(one.from);
    parts.push(s("rect", { class: `band${one.id === chosen ? " chosen" : ""}`, "data-id": one.id, x: left, width: Math.max(x(one.to ?? until) - left, 3), y: TOP - 4, height: height - TOP, click: () => choose(one) },
      s("title", null, `${clock(one.from)}: ${one.text}`)));
  }
  const more = rows.length > MOST ? h("p", { class: "soft small" }, `${rows.length - MOST} more members are not drawn.`) : null;
  const text = `${shown.length} members from ${clock(from)} to ${clock(until)}, with ${rebalances.length} rebalances. The events below say the same.`;
  const picture = s("svg", { class: "chart", id: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text }, parts);
  return [picture, more, legend()];
}

function bar(kind, from, to, y, title) {
  return s("rect", { class: kind, x: from, y, width: Math.max(to - from, 1), height: 15, rx: 2 }, s("title", null, title));
}

function legend() {
  const box = (kind) => s("svg", { class: "chart", viewBox: "0 0 14 12", "aria-hidden": "true" }, s("rect", { class: kind, width: 14, height: 12, rx: 2 }));
  return h("p", { class: "legend" }, [["hold", "has partitions"], ["stay", "is a member"], ["silent", "silent until its session ended"], ["band", "rebalance"]].map(([kind, text]) => h("span", null, box(kind), text)));
}
