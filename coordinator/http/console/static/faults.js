// The faults of a server under test (muster serve --control).

import { control } from "./api.js";
import { cell, h, show, table } from "./dom.js";
import { clock, number } from "./format.js";

const MOST = 50;

const words = (given) => Object.entries(given).map(([name, value]) => (typeof value === "object" ? `${name} ${JSON.stringify(value)}` : `${name} ${value}`)).join(", ");

export function faults({ place, repeat, problem }) {
  const list = h("div");
  place.append(h("h1", null, "Faults"), list);
  const change = (method, path) => () => control(method, path).then(() => hurry(0)).catch(problem);
  const hurry = repeat(2000, async () => {
    const [rules, log] = await Promise.all([control("GET", "faults"), control("GET", "fault-log")]);
    const rows = rules.rules.map((one) => h("tr", null, cell(one.name || one.id, "name"), cell(words(one.match), "long"), cell(words(one.then), "long"), cell(words(one.when), "wide"), cell(number(one.hits), "number"), cell(number(one.held), "number"),
      cell([h("button", { type: "button", id: `release-${one.id}`, disabled: !one.held, click: change("POST", `faults/${encodeURIComponent(one.id)}/release`) }, "Release"),
        h("button", { type: "button", class: "danger", id: `remove-${one.id}`, click: change("DELETE", `faults/${encodeURIComponent(one.id)}`) }, "Remove")])));
    const hits = log.hits.slice(-MOST).reverse().map((one) => h("tr", null, cell(clock(one.wall_ms)), cell(one.name || one.rule), cell(`${one.api} ${one.version}`), cell(one.did, "long"), cell(one.client_id, "name wide"), cell(one.group, "name wide")));
    show(list, h("section", null, rows.length ? table("Rules in force", [["Rule"], ["Requests"], ["What happens"], ["When", "wide"], ["Hits", "number"], ["Held", "number"], ["Change"]], rows) : h("p", null, "No rule is in force: muster faults add --help says how to add one."),
      rows.length ? h("div", { class: "bar" }, h("button", { type: "button", class: "danger", id: "remove-all", click: change("DELETE", "faults") }, "Remove all")) : null),
    hits.length ? h("section", null, table("The newest hits", [["Time"], ["Rule"], ["Request"], ["What happened"], ["Client", "wide"], ["Group", "wide"]], hits)) : null);
  });
  return { title: "Faults", hurry };
}
