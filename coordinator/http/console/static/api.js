// Asks the server. Token and password stay in the memory of this tab. Events arrive over one stream for each page.

import { ask, h } from "./dom.js";

let authorization = sessionStorage.getItem("muster-authorization") ?? "";
let asking = null;

export class Failure extends Error {
  constructor(message, details) {
    super(message);
    this.details = details;
  }
}

const headers = () => (authorization ? { Authorization: authorization } : {});
const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

async function login() {
  asking ??= (async () => {
    const user = h("input", { autocomplete: "username", id: "user" });
    const secret = h("input", { type: "password", autocomplete: "current-password", id: "token" });
    const given = await ask("This server asks who you are",
      [h("label", null, "User (SCRAM); empty with a token", user), h("label", null, "Password, or the token of --http-token", secret)],
      [["Go on", "primary", () => (user.value ? `Basic ${base64(`${user.value}:${secret.value}`)}` : `Bearer ${secret.value.trim()}`)]]);
    authorization = given ?? "";
    sessionStorage.setItem("muster-authorization", authorization);
    asking = null;
  })();
  await asking;
}

async function request(path, options = {}) {
  for (;;) {
    const sent = authorization;
    const response = await fetch(path, { ...options, headers: { ...options.headers, ...headers() }, cache: "no-store" });
    if (response.status === 401) {
      if (authorization === sent) await login();
      continue;
    }
    return response;
  }
}

export async function get(path, signal) {
  const response = await request(`/console/${path}`, { signal });
  const answer = await response.json();
  if (!response.ok) throw new Failure(answer.error.message, answer.error.details);
  return answer;
}

// A request to the control of a server under test.
export async function control(method, path) {
  const response = await request(`/v1/${path}`, { method });
  const answer = await response.json();
  if (!response.ok) throw new Failure(answer.error.message);
  return answer;
}

export async function act(group, action) {
  const response = await request(`/console/groups/${encodeURIComponent(group)}/actions`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...action, confirm: group }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Failure(answer.error.message);
  return answer.done;
}

// Calls `take` with the events of a group, or of all groups. `state` gets "live" or "lost". Ends with the signal.
export async function follow(group, signal, take, state) {
  const query = group === null ? "" : `?group=${encodeURIComponent(group)}`;
  while (!signal.aborted) {
    try {
      const response = await request(`/console/events${query}`, { signal });
      if (!response.ok) throw new Failure("no stream");
      state("live");
      await read(response.body, take);
    } catch (error) {
      if (signal.aborted) return;
    }
    state("lost");
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

async function read(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const messages = rest.split("\n\n");
    rest = messages.pop();
    for (const message of messages) {
      const data = message.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length) take(JSON.parse(data.join("\n")).events);
    }
  }
}
