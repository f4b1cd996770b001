// The list of groups.

import { get } from "./api.js";
import { DENSE, cell, h, show, table } from "./dom.js";
import { ago, badge, catchUp, clock, number, rate, spark } from "./format.js";

const ORDERS = [["worst", "worst first"], ["lag", "most lag"], ["rebalance", "last rebalance"], ["members", "most members"], ["name", "name"]];
const TYPES = ["classic", "consumer", "share", "streams"];
const STATES = ["Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Empty"];
const TROUBLE = ["", "lag grows", "rebalance", "nobody reads", "alert"];
const PAGE = 100;

const choice = (id, label, options, value, change) => h("label", null, label,
  h("select", { id, change }, options.map(([one, text]) => h("option", { value: one, selected: one === value }, text))));

export function groups({ place, query, repeat, signal }) {
  const wanted = { search: query.get("search") ?? "", type: query.get("type") ?? "", state: query.get("state") ?? "",
    only: query.get("only") ?? "", order: query.get("order") ?? "worst" };
  let skip = 0;
  const list = h("div");
  const others = h("div");
  const recent = h("ol", { class: "events", id: "recent", "data-scroll": "recent", tabindex: "0", "aria-label": "The newest events of all groups" });
  const set = (name) => (event) => { wanted[name] = event.target.value; skip = 0; keep(); hurry(0); };
  function keep() {
    const text = new URLSearchParams(Object.entries(wanted).filter(([name, value]) => value && !(name === "order" && value === "worst"))).toString();
    history.replaceState(null, "", text ? `#/?${text}` : "#/");
  }
  const trouble = h("button", { type: "button", "aria-pressed": String(wanted.only === "trouble"), click: () => {
    wanted.only = wanted.only ? "" : "trouble";
    trouble.setAttribute("aria-pressed", String(wanted.only === "trouble"));
    skip = 0; keep(); hurry(0);
  } }, "Only trouble");
  place.append(
    h("h1", null, "Groups"),
    h("div", { class: "bar", role: "search" },
      h("label", null, "Search", h("input", { type: "search", id: "search", value: wanted.search, input: set("search"), "aria-keyshortcuts": "/" })),
      choice("type", "Type", [["", "all"], ...TYPES.map((one) => [one, one])], wanted.type, set("type")),
      choice("state", "State", [["", "all"], ...STATES.map((one) => [one, one])], wanted.state, set("state")),
      choice("order", "Order", ORDERS, wanted.order, set("order")), trouble),
    others, list,
    h("section", { "aria-labelledby": "recent-title" }, h("h2", { id: "recent-title" }, "What happens now"), recent));

  async function load() {
    const text = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
    if (skip) text.set("skip", skip);
    text.set("limit", PAGE);
    const answer = await get(`groups?${text}`, signal);
    draw(answer);
  }

  function draw(answer) {
    const rows = answer.groups.map((row) => h("tr", { "data-group": row.group },
      cell([h("a", { href: `#/groups/${encodeURIComponent(row.group)}`, id: `to-${row.group}` }, row.group || "(no name)"), h("span", { class: "narrow soft" }, [row.alert, row.why].filter(Boolean).join(". "))], "name"),
      cell([badge(row.state), row.trouble && row.trouble !== 2 ? h("span", { class: `badge ${row.trouble >= 3 ? "bad" : "warn"}` }, TROUBLE[row.trouble]) : null]),
      cell(row.type, "wide"), cell(number(row.members), "number"), cell(number(row.lag), "number"),
      cell(spark(row.lags), "wide"), cell(rate(row.committed_s), "number wide"), cell(catchUp(row), "number wide"),
      cell([row.alert ? h("strong", null, `${row.alert}. `) : null, row.why ? [h("span", { class: "soft" }, `${ago(row.rebalanced, answer.at)}: `), row.why] : null], "long wide")));
    const head = [["Group"], ["State"], ["Type", "wide"], ["Members", "number"], ["Lag", "number"], ["Lag, lately", "wide"],
      ["Read", "number wide"], ["Caught up in", "number wide"], ["Last rebalance", "wide"]];
    const shown = answer.groups.length ? `${skip + 1} to ${skip + answer.groups.length} of ${number(answer.matching)}` : "none";
    const more = [["Earlier", skip > 0, -PAGE], ["More", skip + PAGE < answer.matching, PAGE]].filter(([, can]) => can)
      .map(([text, , step]) => h("button", { type: "button", id: `page-${text}`, click: () => { skip += step; hurry(0); } }, text));
    show(list, h("section", { "aria-label": "List of groups" },
      answer.failure ? h("p", { class: "problem panel", role: "alert" }, answer.failure) : null,
      answer.alerts.map((one) => h("p", { class: "problem panel" }, `${one.text}. ${one.advice ?? ""}`)),
      table(`Groups: ${shown}; ${number(answer.total)} in all; read at ${clock(answer.at)}`, head, rows, DENSE),
      h("div", { class: "bar" }, more)));
  }

  function news(events) {
    for (const event of events) recent.prepend(line(event));
    while (recent.childElementCount > 100) recent.lastElementChild.remove();
    for (const event of events) {
      const row = list.querySelector(`tr[data-group="${CSS.escape(event.group ?? "")}"]`);
      if (row && REBALANCED.has(event.kind)) row.lastElementChild.textContent = `now: ${event.text}`;
    }
    hurry(5000);
  }

  const link = (one) => (one.console ? h("a", { href: `${one.console}/${location.hash}` }, `node ${one.node}`) : `node ${one.node}`);
  const hurry = repeat(5000, load);
  get("about", signal).then((about) => {
    if (about.others.length) show(others, h("p", { class: "soft" }, "These are the groups of this node. The others have theirs: ", about.others.flatMap((one, index) => [index ? ", " : "", link(one)]), "."));
  }).catch(() => {});
  get("recent", signal).then((answer) => { if (!recent.childElementCount) news(answer.events); }).catch(() => {});
  return { title: "Groups", news, hurry };
}

export const REBALANCED = new Set(["rebalance_completed", "epoch_reconciled"]);

function line(event) {
  const name = event.group === null ? "" : h("a", { href: `#/groups/${encodeURIComponent(event.group)}` }, event.group);
  return h("li", { class: `new ${REBALANCED.has(event.kind) ? "rebalance" : ""}`, "data-id": event.id, "data-kind": event.kind },
    h("time", { datetime: new Date(event.time).toISOString() }, clock(event.time)), h("span", { class: "text" }, name, name ? ": " : "", event.text));
}
