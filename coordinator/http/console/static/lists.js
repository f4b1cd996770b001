// Topics, the cluster, clients, transactions, refused requests.

import { get } from "./api.js";
import { DENSE, cell, h, show, table } from "./dom.js";
import { badge, clock, duration, number, owned, ago } from "./format.js";

const PAGE = 100;
const READERS = 50;
const toGroup = (name) => h("a", { href: `#/groups/${encodeURIComponent(name)}` }, name || "(no name)");

export function topics({ place, signal, repeat }) {
  let search = "";
  let skip = 0;
  const list = h("section");
  place.append(h("h1", null, "Topics"), h("div", { class: "bar", role: "search" },
    h("label", null, "Search", h("input", { type: "search", id: "search", input: (event) => { search = event.target.value; skip = 0; hurry(0); } }))), list);
  const hurry = repeat(10000, async () => {
    const answer = await get(`topics?search=${encodeURIComponent(search)}&skip=${skip}&limit=${PAGE}`, signal);
    const rows = answer.topics.map((row) => h("tr", null, cell(h("a", { href: `#/topics/${encodeURIComponent(row.topic)}` }, row.topic), "name"), cell(number(row.partitions), "number"), cell(number(row.records), "number")));
    const more = [["Earlier", skip > 0, -PAGE], ["More", skip + PAGE < answer.matching, PAGE]].filter(([, can]) => can)
      .map(([text, , step]) => h("button", { type: "button", id: `page-${text}`, click: () => { skip += step; hurry(0); } }, text));
    show(list, table(`${number(answer.matching)} topics of ${number(answer.total)}`, [["Topic"], ["Partitions", "number"], ["Offsets from start to end", "number"]], rows, DENSE), h("div", { class: "bar" }, more));
  });
  return { title: "Topics", hurry };
}

export function topic({ place, signal, repeat }, name) {
  const list = h("div");
  place.append(h("h1", null, `Topic ${name}`), list);
  const hurry = repeat(10000, async () => {
    const answer = await get(`topics/${encodeURIComponent(name)}`, signal);
    const readers = answer.groups.slice(0, READERS).map((row) => h("tr", null, cell(toGroup(row.group), "name"), cell(badge(row.state)), cell(number(row.lag), "number")));
    const rows = answer.partitions.map((row) => h("tr", null, cell(row.partition, "number"), cell(row.leader < 0 ? "none" : row.leader, "number"), cell(number(row.start), "number"), cell(number(row.end), "number"),
      cell(row.in_sync < row.replicas ? h("span", { class: "badge warn" }, `${row.in_sync} of ${row.replicas}`) : `${row.in_sync} of ${row.replicas}`)));
    show(list, h("section", null, table(`${number(answer.groups.length)} groups have committed offsets here, most lag first`, [["Group"], ["State"], ["Lag", "number"]], readers, DENSE)),
      h("section", null, table(`${number(answer.size)} partitions`, [["Partition", "number"], ["Leader", "number"], ["Start", "number"], ["End", "number"], ["In sync"]], rows, DENSE)));
  });
  return { title: name, hurry };
}

export function cluster({ place, signal, repeat }) {
  const list = h("section");
  place.append(h("h1", null, "Cluster"), list);
  const hurry = repeat(5000, async () => {
    const [about, answer] = await Promise.all([get("about", signal), get("nodes", signal)]);
    const rows = answer.nodes.map((row) => h("tr", null, cell(row.node, "number"), cell([row.address, row.console ? [" ", h("a", { href: `${row.console}/` }, "its console")] : null], "name"), cell(row.alive ? h("span", { class: "badge good" }, "alive") : h("span", { class: "badge bad" }, "away")),
      cell(row.rack), cell(number(row.connections), "number"), cell(number(row.leads), "number")));
    const counts = [...Object.entries(about.types), ...Object.entries(about.states)].map(([what, count]) => h("div", null, h("dt", null, what), h("dd", null, number(count))));
    show(list, h("dl", { class: "facts" }, h("div", null, h("dt", null, "Cluster id"), h("dd", null, about.cluster_id)), h("div", null, h("dt", null, "Groups"), h("dd", null, number(about.groups))), counts),
      about.inferred ? h("p", { class: "soft" }, "Events are inferred from the offsets log: this cluster has no __group_events.") : null,
      table("Nodes", [["Node", "number"], ["Address"], ["State"], ["Rack"], ["Connections", "number"], ["Leads partitions", "number"]], rows));
  });
  return { title: "Cluster", hurry };
}

export function clients({ place, signal, repeat }) {
  const list = h("section");
  place.append(h("h1", null, "Clients"), list);
  const hurry = repeat(5000, async () => {
    const answer = await get("clients", signal);
    if (!answer.clients.length) {
      show(list, h("p", null, "No client has pushed metrics of itself (KIP-714). kafka-client-metrics.sh --alter asks clients for them."));
      return;
    }
    const rows = answer.clients.map((row) => h("tr", null, cell(row.client_id, "name"), cell(row.software, "wide"), cell(row.host, "wide"), cell(row.group ? toGroup(row.group) : null, "name"),
      cell(figures(row.figures), "long"), cell(ago(row.pushed_ms, answer.at))));
    show(list, table(`${number(answer.total)} clients, by what they say of themselves`, [["Client"], ["Software", "wide"], ["Host", "wide"], ["Group"], ["Says"], ["Last push"]], rows));
  });
  return { title: "Clients", hurry };
}

const SAYS = { last_poll_s: (value) => `last poll ${duration(value * 1000)} before`, poll_interval_max_ms: (value) => `at most ${duration(value)} between polls`,
  heartbeats_per_s: (value) => `${value.toFixed(2)} heartbeats a second`, rebalance_latency_max_ms: (value) => `a rebalance took ${duration(value)} at most`, failed_rebalances: (value) => `failed rebalances: ${value}` };
export const figures = (given) => Object.entries(given ?? {}).filter(([name]) => name in SAYS).map(([name, value]) => SAYS[name](value)).join(", ");

export function transactions({ place, signal, repeat }) {
  const list = h("div");
  place.append(h("h1", null, "Transactions"), list);
  const hurry = repeat(3000, async () => {
    const answer = await get("transactions", signal);
    const open = answer.open.map((row) => h("tr", null, cell(row.id, "name"), cell(badge(row.state)), cell([duration(row.open_ms), row.open_ms > row.timeout_ms ? h("span", { class: "badge bad" }, "beyond its timeout") : null]),
      cell(duration(row.timeout_ms)), cell(`${row.producer_id} epoch ${row.epoch}`, "wide"), cell(owned(row.topics), "long")));
    const others = answer.others.map((row) => h("tr", null, cell(row.id, "name"), cell(badge(row.state)), cell(row.producer_id, "number")));
    show(list, h("section", null, open.length ? table(`${open.length} open transactions, the oldest first`, [["Transactional id"], ["State"], ["Open for"], ["Timeout"], ["Producer", "wide"], ["Partitions"]], open) : h("p", null, "No transaction is open.")),
      others.length ? h("section", null, table(`Other transactional ids; ${number(answer.total)} in all`, [["Transactional id"], ["State"], ["Producer", "number"]], others)) : null);
  });
  return { title: "Transactions", hurry };
}

export function refused({ place, signal, repeat }) {
  const list = h("section");
  place.append(h("h1", null, "Refused requests"), list);
  const hurry = repeat(5000, async () => {
    const answer = await get("refused", signal);
    const rows = answer.events.map((row) => h("tr", null, cell(clock(row.time)), cell(row.group === null ? null : toGroup(row.group), "name"), cell(row.api), cell(h("span", { class: "badge warn" }, row.error ?? "several")),
      cell(number(row.count), "number"), cell([row.client_id, row.host].filter(Boolean).join(" "), "name wide")));
    show(list, rows.length ? table("The newest refused requests of group members", [["Time"], ["Group"], ["Request"], ["Error"], ["Times", "number"], ["Client", "wide"]], rows) : h("p", null, "No request was refused lately."));
  });
  return { title: "Refused", hurry, news: () => hurry(2000) };
}
