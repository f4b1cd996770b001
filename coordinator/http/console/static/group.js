// One group: what happens now, members by time, why it rebalanced, offsets, members, settings, events.

import { Failure, act, get } from "./api.js";
import { DENSE, ask, cell, h, show, table } from "./dom.js";
import { badge, catchUp, clock, day, duration, minute, number, owned, rate, short, spark } from "./format.js";
import { chart } from "./chart.js";
import { lanes } from "./lanes.js";
import { figures } from "./lists.js";
import { REBALANCED } from "./groups.js";

const SPANS = [[600000, "10 min"], [3600000, "1 h"], [21600000, "6 h"], [86400000, "1 day"]];
const MOST = 3000;
const RATE_MS = 60000;

export function group({ place, query, repeat, signal, problem }, name) {
  const path = `groups/${encodeURIComponent(name)}`;
  const state = { view: null, events: [], ids: new Set(), span: SPANS[0][0], day: query.get("day"), at: query.get("at"), chosen: null, samples: new Map(), offsets: null };
  const parts = Object.fromEntries(["head", "now", "alerts", "lanes", "why", "offsets", "members", "settings", "events"].map((one) => [one, h("div")]));
  const now = h("ul", { class: "now", "aria-live": "polite" });
  parts.now.append(now);
  const titled = (id, title, part) => h("section", { "aria-labelledby": id }, h("h2", { id }, title), part);
  place.append(h("h1", null, name || "(no name)"), parts.head, parts.alerts, titled("t-now", "What happens now", parts.now), titled("t-lanes", "Members by time", parts.lanes),
    titled("t-why", "Why did it rebalance?", parts.why), titled("t-offsets", "Offsets and lag", parts.offsets), titled("t-members", "Members", parts.members),
    titled("t-events", "Events", parts.events), titled("t-settings", "Settings", parts.settings), titled("t-actions", "Change", actions()));

  // ---- now

  async function load() {
    const [view, offsets] = await Promise.all([get(path, signal), get(`${path}/offsets`, signal).catch(() => null)]);
    state.view = view;
    if (offsets) sample(offsets);
    head(); sentences(); drawMembers(); drawOffsets(); drawLanes();
  }

  function head() {
    const { view } = state;
    const facts = [["State", badge(view.state)], ["Type", view.type], ["Members", number(view.member_count)], ["Assignor", view.protocol || "–"], ["Epoch", view.epoch ?? "–"],
      ["Lag", number(view.lag)], ["Read", rate(view.committed_s)], ["Written", rate(view.written_s)], ["Caught up in", catchUp(view)], ["Lag, lately", spark(view.lags) ?? "–"]];
    show(parts.alerts, view.alerts.map((one) => h("div", { class: "problem panel" }, h("p", null, h("strong", null, `${one.text}.`), ` Since ${clock(one.since)}.`, one.advice ? ` What to do: ${one.advice}.` : ""),
      h("ul", null, one.evidence.slice(0, 5).map((each) => h("li", null, each.text))))));
    show(parts.head, h("dl", { class: "facts" }, facts.map(([term, value]) => h("div", null, h("dt", null, term), h("dd", null, value)))));
  }

  function sentences() {
    const texts = state.view.now;
    const shown = [...now.children].map((one) => one.textContent);
    if (texts.join("\n") !== shown.join("\n")) now.replaceChildren(...texts.map((text) => h("li", null, text)));
  }

  // ---- time

  function window_() {
    if (state.day) {
      const from = new Date(`${state.day}T00:00:00`).getTime();
      return [from, Math.min(from + 86400000, Date.now())];
    }
    if (state.at) {
      const at = new Date(state.at).getTime();
      return [at - 600000, Math.min(at + 660000, Date.now())];
    }
    const [first] = state.events;
    const born = first?.kind === "group_created" ? first.time - 5000 : 0;
    return [Math.max(Date.now() - state.span, born), Date.now()];
  }

  async function loadHistory() {
    const isNow = !state.day && !state.at;
    const [start, until] = isNow ? [Date.now() - state.span, Date.now()] : window_();
    const from = start - 60000;
    const answer = await get(`${path}/history?from=${Math.max(Math.floor(from), 0)}${state.day || state.at ? `&until=${Math.ceil(until)}` : ""}`, signal);
    const later = state.day || state.at ? [] : state.events.filter((one) => one.live && !answer.events.some((known) => known.id === one.id));
    state.events = [...answer.events, ...later].slice(-MOST);
    state.ids = new Set(state.events.map((one) => one.id));
    drawLanes(); drawEvents();
  }

  function address() {
    const text = new URLSearchParams([["day", state.day], ["at", state.at]].filter(([, value]) => value)).toString();
    history.replaceState(null, "", `#/groups/${encodeURIComponent(name)}${text ? `?${text}` : ""}`);
  }

  function go(changes) {
    Object.assign(state, { day: null, at: null, chosen: null }, changes);
    address();
    loadHistory().then(() => (state.at ? explain() : null)).catch(unread);
  }

  function drawLanes() {
    const [from, until] = window_();
    const isNow = !state.day && !state.at;
    const found = lanes(state.events, isNow ? state.view?.members : [], from, until);
    const buttons = SPANS.map(([ms, text]) => h("button", { type: "button", id: `span-${ms}`, "aria-pressed": String(isNow && state.span === ms), click: () => go({ span: ms }) }, text));
    const dayField = h("input", { type: "date", id: "day", value: state.day ?? day(until), max: day(Date.now()), change: (event) => { if (event.target.value) go({ day: event.target.value }); } });
    show(parts.lanes, h("div", { class: "bar" }, h("span", null, isNow ? "Now, and before:" : state.day ? `The day ${state.day}` : `Around ${state.at.replace("T", " ")}`), buttons, h("label", null, "Day", dayField),
      h("button", { type: "button", id: "day-before", click: () => go({ day: day(from - 43200000) }) }, "The day before"),
      state.day && state.day !== day(Date.now()) ? h("button", { type: "button", id: "day-after", click: () => go({ day: day(from + 129600000) }) }, "The day after") : null),
      found.rows.length ? chart(found, from, until, state.chosen, choose, parts.lanes.clientWidth || 1000) : h("p", { class: "soft" }, "No member was in the group in this time."));
  }

  function choose(rebalance) {
    state.chosen = rebalance.id;
    drawLanes(); drawEvents();
    question(rebalance.to ?? rebalance.from).catch(problem);
  }

  // ---- why

  const field = h("input", { type: "datetime-local", id: "why-at", value: query.get("at") ?? minute(Date.now()) });
  const answer = h("div", { id: "why-answer", "aria-live": "polite" });
  parts.why.append(h("form", { class: "bar", submit: (event) => { event.preventDefault(); if (field.value) go({ at: field.value }); } },
    h("label", null, "At", field), h("button", { type: "submit", class: "primary" }, "Why?")), answer);

  const explain = () => question(new Date(state.at).getTime());

  async function question(at) {
    const found = await get(`${path}/why?at=${Math.max(Math.floor(at), 0)}`, signal);
    state.chosen = found.id;
    const link = found.id === null ? null : `#/groups/${encodeURIComponent(name)}?at=${minute(found.from)}`;
    show(answer, found.sentences.map((text) => h("p", null, text)), link ? h("p", { class: "small" }, h("a", { href: link }, `A link to this rebalance: ${minute(found.from).replace("T", " ")}`)) : null);
    drawLanes(); drawEvents();
  }

  // ---- events

  function unread(error) {
    if (error instanceof Failure) show(parts.events, h("p", { class: "soft" }, error.message));
    else problem(error);
  }

  function drawEvents() {
    const rows = state.events.slice(-500).reverse().map((event) => line(event));
    show(parts.events, h("p", { class: "soft small" }, "The newest first; a rebalance is one bold line"),
      h("ol", { class: "events", id: "events", "data-scroll": "events", tabindex: "0", "aria-label": "Events of the group" }, rows));
  }

  function line(event, isNew = false) {
    const kinds = [isNew ? "new" : "", REBALANCED.has(event.kind) ? "rebalance" : "", event.id === state.chosen ? "chosen" : ""].join(" ");
    return h("li", { class: kinds, "data-id": event.id, "data-kind": event.kind }, h("time", { datetime: new Date(event.time).toISOString() }, clock(event.time)), h("span", { class: "text" }, REBALANCED.has(event.kind) ? h("button", { type: "button", class: "line", title: "Why?", click: () => choose({ id: event.id, to: event.time }) }, event.text) : event.text));
  }

  function news(events) {
    if (state.day || state.at) return;
    const fresh = events.filter((one) => !state.ids.has(one.id));
    for (const one of fresh) { one.live = true; state.events.push(one); state.ids.add(one.id); }
    if (state.events.length > MOST) state.events = state.events.slice(-MOST);
    const list = document.getElementById("events");
    if (list) {
      for (const one of fresh) list.prepend(line(one, true));
      while (list.childElementCount > 500) list.lastElementChild.remove();
    } else drawEvents();
    drawLanes();
    hurry(2000);
  }

  // ---- offsets

  function sample(offsets) {
    state.offsets = offsets;
    for (const row of offsets.offsets) {
      const key = `${row.topic}\n${row.partition}`;
      const known = state.samples.get(key) ?? [];
      if (known.at(-1)?.at !== offsets.at) known.push({ at: offsets.at, offset: row.offset, end: row.end });
      state.samples.set(key, known.filter((one) => offsets.at - one.at <= RATE_MS));
    }
  }

  function rates(row) {
    const known = state.samples.get(`${row.topic}\n${row.partition}`) ?? [];
    const [first, last] = [known[0], known.at(-1)];
    if (!first || first.at === last.at) return [null, null, null];
    const seconds = (last.at - first.at) / 1000;
    const read = (last.offset - first.offset) / seconds;
    const written = last.end === null || first.end === null ? null : (last.end - first.end) / seconds;
    return [read, written, row.lag && written !== null && read > written ? (row.lag / (read - written)) * 1000 : null];
  }

  function drawOffsets() {
    const { offsets, view } = state;
    if (!offsets || !offsets.offsets.length) { show(parts.offsets, h("p", { class: "soft" }, "The group has committed no offsets.")); return; }
    const owners = new Map();
    for (const member of view.members) for (const [topic, partitions] of Object.entries(member.reads ?? member.assignment ?? {})) for (const one of partitions) owners.set(`${topic}\n${one}`, member.instance ?? member.client_id ?? short(member.member));
    const ordered = [...offsets.offsets].sort((a, b) => (b.lag ?? -1) - (a.lag ?? -1)).slice(0, 200);
    const rows = ordered.map((row) => {
      const [read, written, left] = rates(row);
      const owner = owners.get(`${row.topic}\n${row.partition}`);
      return h("tr", null, cell([h("a", { href: `#/topics/${encodeURIComponent(row.topic)}` }, row.topic), h("span", { class: "narrow soft" }, owner ? `owner: ${owner}` : "no owner")], "name"), cell(row.partition, "number"), cell(number(row.offset), "number"), cell(number(row.end), "number wide"), cell(number(row.lag), "number"),
        cell(rate(read), "number wide"), cell(rate(written), "number wide"), cell(!row.lag ? "all read" : duration(left), "number wide"), cell(owner, "name wide"));
    });
    show(parts.offsets, table(`${number(offsets.partitions)} partitions, most lag first${offsets.partitions > 200 ? "; 200 are shown" : ""}`,
      [["Topic"], ["Partition", "number"], [view.type === "share" ? "Start" : "Committed", "number"], ["End", "number wide"], ["Lag", "number"], ["Read", "number wide"], ["Written", "number wide"], ["Caught up in", "number wide"], ["Owner", "wide"]], rows, DENSE));
  }

  // ---- members

  function drawMembers() {
    const { view } = state;
    if (!view.members.length) { show(parts.members, h("p", { class: "soft" }, "The group has no members.")); return; }
    const isNew = view.epoch !== null;
    const rows = view.members.map((one) => h("tr", null, cell([one.instance ? h("strong", null, one.instance) : null, one.instance ? " " : null, short(one.member)], "name"), cell(one.client_id, "name"), cell((one.host ?? "").replace(/^\//, ""), "wide"),
      isNew ? cell(one.epoch, "number wide") : null, cell(owned(one.assignment), "long"), cell([one.doing, one.silent_ms ? h("span", { class: "badge warn" }, `silent for ${duration(one.silent_ms)}`) : null, figures(one.figures) ? h("span", { class: "soft" }, ` It says: ${figures(one.figures)}.`) : null], "long"),
      cell(view.type === "share" || view.type === "streams" ? null : h("button", { type: "button", class: "danger", "aria-label": `Remove ${one.instance ?? one.member}`, click: () => remove(one) }, "Remove"))));
    show(parts.members, table(`${number(view.member_count)} member${view.member_count === 1 ? "" : "s"}`, [["Member"], ["Client"], ["Host", "wide"], ...(isNew ? [["Epoch", "number wide"]] : []), ["Has"], ["Does"], ["Change"]], rows));
  }

  // ---- settings

  get(`${path}/settings`, signal).then((found) => {
    const rows = found.settings.map((one) => h("tr", null, cell(one.name, "name"), cell(one.value), cell(one.from), cell(one.meaning, "long wide")));
    show(parts.settings, table("The settings that this group depends on, in Kafka's words", [["Setting"], ["Value"], ["From"], ["Meaning", "wide"]], rows));
  }).catch((error) => show(parts.settings, h("p", { class: "soft" }, error.message)));

  // ---- changes

  function actions() {
    const topicNames = () => [...new Set((state.offsets?.offsets ?? []).map((row) => row.topic))];
    return h("div", { class: "bar" },
      h("button", { type: "button", class: "danger", click: () => offsetsDialog("Reset offsets", true, topicNames()) }, "Reset offsets"),
      h("button", { type: "button", class: "danger", click: () => offsetsDialog("Delete offsets", false, topicNames()) }, "Delete offsets"),
      h("button", { type: "button", class: "danger", click: deleteGroup }, "Delete the group"));
  }

  async function confirmed(title, text, extra, action) {
    const field_ = h("input", { id: "confirm", autocomplete: "off" });
    const given = await ask(title, [h("p", null, text), extra, h("label", null, `Type the name of the group to confirm: ${name}`, field_)],
      [["Cancel", "", null], [title, "danger", () => field_.value]]);
    if (given === null) return;
    if (given !== name) { await ask("Nothing was changed", h("p", null, "The name was another one."), [["Close", "", null]]); return; }
    try {
      const done = await act(name, action());
      await ask("Done", h("p", null, done), [["Close", "", null]]);
    } catch (error) {
      await ask("Nothing was changed", h("p", null, error.message), [["Close", "", null]]);
    }
    hurry(0);
  }

  function deleteGroup() {
    return confirmed("Delete the group", "The group and its offsets are deleted. Its members, if any, must be stopped before.", null, () => ({ action: "delete_group" }));
  }

  function remove(one) {
    return confirmed("Remove the member", `${one.instance ?? one.member} is removed. Its process may join again.`, null, () => ({ action: "remove_member", member: one.member, instance: one.instance }));
  }

  function offsetsDialog(title, isReset, names) {
    const topicField = h("select", { id: "reset-topic" }, names.map((one) => h("option", { value: one }, one)));
    const to = h("select", { id: "reset-to" }, [["earliest", "the start"], ["latest", "the end"], ["offset", "an offset"]].map(([value, text]) => h("option", { value }, text)));
    const offset = h("input", { type: "number", min: "0", value: "0", id: "reset-offset" });
    const extra = [h("label", null, "Topic", topicField), isReset ? h("label", null, "To", to) : null, isReset ? h("label", null, "The offset, if an offset is chosen", offset) : null];
    const text = isReset ? "All partitions of the topic get another offset. The group must have no members." : "The offsets of all partitions of the topic are deleted.";
    return confirmed(title, text, extra, () => (isReset
      ? { action: "reset_offsets", topic: topicField.value, to: to.value === "offset" ? Number(offset.value) : to.value }
      : { action: "delete_offsets", topic: topicField.value }));
  }

  addEventListener("resize", drawLanes, { signal });
  const hurry = repeat(5000, load);
  loadHistory().then(() => (state.at ? explain() : null)).catch(unread);
  return { title: name, follows: name, news, hurry };
}
