// A server of Muster for tests: it is started as a process, and told over HTTP what to do to groups, requests and time.
//
// Copy this file into your tests. It needs nothing but Node 20 and the `muster` command (the README says how to install
// it), on PATH or named by the variable MUSTER.

import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";
import { createInterface } from "node:readline";

export interface Partitions { topic: string; partitions: number[] }
export interface Member { member_id: string; instance_id?: string | null; client_id: string; assignment: Partitions[] }
export interface GroupView { group: string; type: string; state: string; generation: number; held?: boolean; members: Member[] }
export interface Offset { topic: string; partition: number; offset: number; lag?: number | null }
export interface Offsets { offsets: Offset[]; lag: number }
export interface TopicPartition { partition: number; leader: number; start_offset: number; end_offset: number }
export interface NewRecord { key?: string | null; value?: string | null; partition?: number; headers?: Record<string, string> }
export interface Rule {
  match?: { api?: string | string[]; group?: string; client_id?: string; topic?: string; node?: number };
  then: { do: string; error?: string; ms?: number; where?: string; release?: string };
  when?: { once?: boolean; times?: number; on_call?: number; every?: number; until_released?: boolean };
  name?: string;
}
export interface RuleInForce extends Rule { id: string; seen: number; hits: number; held: number; spent: boolean }
export interface Hit { number: number; rule: string; api: string; client_id: string; did: string }
export interface TimeView { frozen: boolean; wall_ms: number; mono_ms: number; next_due_ms: number | null }
export interface NodeView { node: number; state: string; addresses: string[] }
export interface Which { member_id?: string; instance_id?: string; client_id?: string }

export interface Options {
  /** Kafka's properties by their own names. */
  properties?: Record<string, string | number | boolean>;
  /** Topics that are there from the start: name -> partitions. */
  topics?: Record<string, number>;
  nodes?: number;
  /** Time can be frozen and moved. */
  virtualTime?: boolean;
}

/** What the server refused, or waited for in vain: then the message tells what the group did. `code` is that of the API. */
export class MusterError extends Error {
  constructor(readonly code: string, message: string, readonly details: Record<string, unknown> = {}) { super(message); }
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });

export class Muster {
  private constructor(private readonly process: ChildProcess, private readonly control: string, readonly bootstrapServers: string) {}

  static async start(options: Options = {}): Promise<Muster> {
    const control = `127.0.0.1:${await freePort()}`;
    const words = ["serve", "--in-memory", "--listen", "127.0.0.1:0", "--control", control];
    const properties = { "group.initial.rebalance.delay.ms": 0, ...options.properties };
    for (const [name, value] of Object.entries(properties)) words.push("--override", `${name}=${value}`);
    for (const [name, partitions] of Object.entries(options.topics ?? {})) words.push("--topic", `${name}:${partitions}`);
    if (options.nodes) words.push("--nodes", `${options.nodes}`);
    if (options.virtualTime) words.push("--virtual-time");
    const child = spawn(process.env["MUSTER"] ?? "muster", words, { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.stderr.on("data", (data) => { said = (said + data).slice(-10_000); });
    await new Promise<void>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (status) => reject(new Error(`muster ended with status ${status}:\n${said}`)));
      createInterface(child.stdout).on("line", (line) => { if (line.startsWith("muster ready ")) resolve(); });
    });
    const muster = new Muster(child, control, "");
    const { bootstrap_servers } = await muster.call<{ bootstrap_servers: string }>("GET", "/server");
    return new Muster(child, control, bootstrap_servers);
  }

  async stop(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGTERM");
    await ended;
  }

  topic(name: string): Topic { return new Topic(this, name); }
  group(id: string): Group { return new Group(this, id); }
  readonly faults = new Faults(this);
  readonly time = new Time(this);
  readonly nodes = new Nodes(this);

  /** Ask for a verb of the control's API (GET /v1/openapi.json tells all of them). */
  async call<T = unknown>(method: string, path: string, body?: unknown): Promise<T> {
    const init: RequestInit = { method };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
      init.headers = { "content-type": "application/json" };
    }
    const response = await fetch(`http://${this.control}/v1${path}`, init);
    const answer = await response.json() as T & { error?: { code: string; message: string; details?: Record<string, unknown> } };
    if (!response.ok) throw new MusterError(answer.error?.code ?? "fault", answer.error?.message ?? "", answer.error?.details);
    return answer;
  }
}

export class Topic {
  private readonly path: string;
  constructor(private readonly muster: Muster, readonly name: string) { this.path = `/topics/${encodeURIComponent(name)}`; }

  create(partitions = 1, configs: Record<string, string> = {}) {
    return this.muster.call("POST", "/topics", { name: this.name, partitions, configs });
  }
  delete() { return this.muster.call("DELETE", this.path); }
  grow(partitions: number) { return this.muster.call("POST", `${this.path}/grow`, { partitions }); }
  async partitions() { return (await this.muster.call<{ partitions: TopicPartition[] }>("GET", this.path)).partitions; }
  produce(...records: (string | NewRecord)[]) {
    const rows = records.map((one) => (typeof one === "string" ? { value: one } : one));
    return this.muster.call("POST", `${this.path}/produce`, { records: rows });
  }
  async records(partition = 0) {
    const path = `${this.path}/records?partition=${partition}`;
    return (await this.muster.call<{ records: (NewRecord & { offset: number })[] }>("GET", path)).records;
  }
}

export class Group {
  private readonly path: string;
  constructor(private readonly muster: Muster, readonly id: string) { this.path = `/groups/${encodeURIComponent(id)}`; }

  describe() { return this.muster.call<GroupView>("GET", this.path); }
  offsets() { return this.muster.call<Offsets>("GET", `${this.path}/offsets`); }
  /** What happened in the group, a line each. */
  async timeline() { return (await this.muster.call<{ timeline: string[] }>("GET", `${this.path}/history`)).timeline; }
  /** Wait until the group is stable, with so many members, and with every partition of a topic assigned. */
  waitStable(wanted: { members?: number; partitions?: string; timeoutMs?: number } = {}) {
    const { timeoutMs = 30_000, ...rest } = wanted;
    return this.muster.call<GroupView>("POST", `${this.path}/wait-stable`, { ...rest, timeout_ms: timeoutMs });
  }
  /** Wait until the group has committed the ends of the topic. */
  waitConsumed(topic: string, timeoutMs = 30_000) {
    return this.muster.call<Offsets>("POST", `${this.path}/wait-consumed`, { topic, timeout_ms: timeoutMs });
  }
  rebalance() { return this.muster.call("POST", `${this.path}/rebalance`); }
  expire(member: Which) { return this.muster.call("POST", `${this.path}/expire`, member); }
  remove(member: Which) { return this.muster.call("POST", `${this.path}/remove`, member); }
  resetOffsets(topic: string, to: "earliest" | "latest" | number | { timestamp_ms: number }) {
    return this.muster.call<Offsets>("POST", `${this.path}/reset-offsets`, { topic, to });
  }
  holdJoins() { return this.muster.call("POST", `${this.path}/hold-joins`); }
  release() { return this.muster.call("POST", `${this.path}/release`); }
}

export class Faults {
  constructor(private readonly muster: Muster) {}

  add(rule: Rule) { return this.muster.call<RuleInForce>("POST", "/faults", rule); }
  async list() { return (await this.muster.call<{ rules: RuleInForce[] }>("GET", "/faults")).rules; }
  release(id: string) { return this.muster.call<RuleInForce>("POST", `/faults/${id}/release`); }
  remove(id: string) { return this.muster.call("DELETE", `/faults/${id}`); }
  clear() { return this.muster.call("DELETE", "/faults"); }
  /** Which rule hit which request. */
  async log() { return (await this.muster.call<{ hits: Hit[] }>("GET", "/fault-log")).hits; }
  scenario(name: string, parameters: Record<string, unknown> = {}) {
    return this.muster.call<{ id: string; steps: string[]; done: boolean }>("POST", `/scenarios/${name}`, parameters);
  }
}

/** The server's time; it needs `virtualTime`. */
export class Time {
  constructor(private readonly muster: Muster) {}

  now() { return this.muster.call<TimeView>("GET", "/time"); }
  freeze() { return this.muster.call<TimeView>("POST", "/time/freeze"); }
  thaw() { return this.muster.call<TimeView>("POST", "/time/thaw"); }
  advance(ms: number) { return this.muster.call<TimeView>("POST", "/time/advance", { ms }); }
  runUntil(condition: { condition: "stable" | "idle"; group?: string; members?: number; partitions?: string }) {
    return this.muster.call<TimeView>("POST", "/time/run-until", condition);
  }
}

export class Nodes {
  constructor(private readonly muster: Muster) {}

  async list() { return (await this.muster.call<{ nodes: NodeView[] }>("GET", "/nodes")).nodes; }
  async tell(node: number, verb: "stop" | "kill" | "pause" | "resume" | "return") {
    return (await this.muster.call<{ nodes: NodeView[] }>("POST", `/nodes/${node}/${verb}`)).nodes;
  }
}
