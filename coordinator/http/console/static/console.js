// The frame of the console: pages by the part of the address after #, the stream of events, and keys.

import { follow, Failure, get } from "./api.js";
import { ask, h, show } from "./dom.js";
import { groups } from "./groups.js";

// The first page needs few modules. The others are loaded when their page is opened.
const list = (name) => async () => (await import("./lists.js"))[name];
const group = async () => (await import("./group.js")).group;
const PAGES = [
  ["", "Groups", () => groups, "g"],
  ["topics", "Topics", list("topics"), "t"],
  ["cluster", "Cluster", list("cluster"), "c"],
  ["clients", "Clients", list("clients"), "l"],
  ["transactions", "Transactions", list("transactions"), "x"],
  ["refused", "Refused", list("refused"), "r"],
];
const main = document.getElementById("main");
const stream = document.getElementById("stream");
let leaving = new AbortController();
let current = {};

function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").map(decodeURIComponent), query: new URLSearchParams(query) };
}

function navigation(first) {
  document.getElementById("pages").replaceChildren(...PAGES.map(([path, title]) =>
    h("a", { href: `#/${path}`, "aria-current": (first === "groups" ? "" : first) === path ? "page" : null }, title)));
}

function state(now) {
  stream.className = now;
  stream.textContent = now === "live" ? "live" : "the connection is lost";
}

// Runs `load` now, every `ms` while the page is visible, and soon after `hurry()`.
function repeat(signal, ms, load) {
  let timer = 0;
  let last = 0;
  const run = async () => {
    clearTimeout(timer);
    if (signal.aborted) return;
    if (!document.hidden) {
      last = performance.now();
      try {
        await load();
        document.getElementById("problem")?.remove();
      } catch (error) {
        if (!signal.aborted) problem(error);
      }
    }
    if (!signal.aborted) timer = setTimeout(run, ms);
  };
  run();
  return (soonest = 2000) => {
    clearTimeout(timer);
    timer = setTimeout(run, Math.max(soonest - (performance.now() - last), 100));
  };
}

function problem(error) {
  const isAway = error instanceof TypeError && error.message.includes("fetch");
  const text = error instanceof Failure ? error.message : isAway ? "The server does not answer." : `A fault of the console: ${error}`;
  if (!(error instanceof Failure || isAway)) console.error(error);
  const known = document.getElementById("problem");
  const there = error.details?.console ? [". ", h("a", { href: `${error.details.console}/${location.hash}` }, "Open it there"), "."] : "";
  if (known) known.replaceChildren(text, ...there);
  else main.prepend(h("p", { id: "problem", class: "panel problem", role: "alert" }, text, there));
}

async function open() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { parts, query } = address();
  const [first, name] = parts;
  navigation(first);
  const place = h("div");
  show(main, place);
  const tools = { place, query, signal, problem, repeat: (ms, load) => repeat(signal, ms, load) };
  let load = (PAGES.find(([path]) => path === first) ?? PAGES[0])[2];
  if (first === "groups" && name !== undefined) load = group;
  else if (first === "topics" && name !== undefined) load = list("topic");
  current = {};
  let make;
  try {
    make = await load();
  } catch (error) {
    if (!signal.aborted) problem(error);
    return;
  }
  if (signal.aborted) return;
  const page = current = make(tools, name);
  document.title = page.title ? `${page.title} – Muster` : "Muster";
  listen(page);
}

let listening = new AbortController();
function listen(page) {
  listening.abort();
  listening = new AbortController();
  const { signal } = listening;
  leaving.signal.addEventListener("abort", () => listening.abort());
  // a hidden tab keeps no connection: a browser has only six for a server
  if (!document.hidden) follow(page.follows ?? null, signal, (events) => page.news?.(events), state);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) listening.abort();
  else { listen(current); current.hurry?.(); }
});

function help() {
  const rows = [["/", "search"], ["j, k", "the next row, the row before"], ["Enter", "open the row"], ["Escape", "back to the groups"],
    ...PAGES.map(([, title, , key]) => [`g ${key}`, title.toLowerCase()]), ["?", "these keys"]];
  ask("Keys", h("dl", { class: "bar" }, rows.map(([keys, text]) => h("div", null, h("dt", null, h("kbd", null, keys)), h("dd", null, text)))),
    [["Close", "", null]]);
}

let went = false;
function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("dialog").open) return;
  const inText = event.target.matches("input, select, textarea");
  if (event.key === "Escape") {
    if (inText) event.target.blur();
    else if (location.hash.startsWith("#/groups/")) location.hash = "#/";
    return;
  }
  if (inText) return;
  if (went) {
    went = false;
    const page = PAGES.find(([, , , letter]) => letter === event.key);
    if (page) location.hash = `#/${page[0]}`;
  } else if (event.key === "g") went = true;
  else if (event.key === "?") help();
  else if (event.key === "/") {
    const field = main.querySelector("input[type=search]");
    if (field) { event.preventDefault(); field.focus(); }
  } else if (event.key === "j" || event.key === "k") {
    const links = [...main.querySelectorAll("tbody a")];
    const place = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    links[Math.min(Math.max(place, 0), links.length - 1)]?.focus();
  }
}

get("about").then((about) => {
  if (!about.control) return;
  PAGES.push(["faults", "Faults", async () => (await import("./faults.js")).faults, "f"]);
  if (address().parts[0] === "faults") open();
  else navigation(address().parts[0]);
}).catch(() => {});
document.addEventListener("keydown", key);
document.getElementById("help-button").addEventListener("click", help);
addEventListener("hashchange", () => { open(); main.focus({ preventScroll: true }); scrollTo(0, 0); });
open();
