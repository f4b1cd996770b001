// One consumer process of a recording (record.py) by KafkaJS. It does and reports what member.py does and reports, but
// neither `subscribe` nor a pause between two polls: KafkaJS sends heartbeats only between two records. The only
// argument is member.py's Settings as JSON.
import { createInterface } from "node:readline";
import kafkajs from "kafkajs";

const { Kafka, logLevel } = kafkajs;
const settings = JSON.parse(process.argv[2]);
const byHand = settings.commits !== "auto";
const held = new Map();
const at = new Map();
let mine = {};
let rate = settings.rate;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const tell = (what, more = {}) => process.stdout.write(`${JSON.stringify({ at: Date.now(), what, ...more })}\n`);
const partitions = () => ({ partitions: Object.values(mine).flat() });
const places = () =>
  Object.entries(mine).flatMap(([topic, some]) => some.map((one) => [topic, one, at.get(`${topic}-${one}`)]));

const kafka = new Kafka({
  clientId: settings.client_id,
  brokers: settings.bootstrap.split(","),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 300, retries: 10, maxRetryTime: 2000 },
});
const consumer = kafka.consumer({
  groupId: settings.group,
  sessionTimeout: settings.session_ms,
  rebalanceTimeout: Math.max(settings.session_ms, 60_000),
  heartbeatInterval: settings.heartbeat_ms,
  metadataMaxAge: settings.metadata_ms,
  maxWaitTimeInMs: 500,
  retry: { retries: 10, restartOnFailure: async () => true },
});

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  mine = payload.memberAssignment;
  at.clear();
  tell("assigned", partitions());
});
consumer.on(consumer.events.REBALANCING, () => {
  tell("revoked", partitions());
  mine = {};
});

async function commit() {
  const wanted = places().filter(([, one, offset]) => offset !== undefined && held.get(one) !== "pause");
  if (!wanted.length) return;
  try {
    await consumer.commitOffsets(
      wanted.map(([topic, partition, offset]) => ({ topic, partition, offset: String(offset) })),
    );
    tell("committed", { places: wanted });
  } catch {
    // a rebalance is under way
  }
}

async function back(records, only) {
  const moved = [];
  for (const [topic, partition, offset] of places()) {
    if (offset === undefined || (only !== undefined && partition !== only)) continue;
    const to = Math.max(offset - records, 0);
    consumer.seek({ topic, partition, offset: String(to) });
    at.set(`${topic}-${partition}`, to);
    moved.push([topic, partition, to]);
  }
  if (byHand) await commit();
  tell("back", { places: moved });
}

function hold(verb, partition) {
  held.delete(partition);
  if (verb !== "go") held.set(partition, verb);
  const some = settings.topics.map((topic) => ({ topic, partitions: [partition] }));
  if (verb === "go") consumer.resume(some);
  else consumer.pause(some);
}

async function obey(line) {
  const [verb, ...words] = line.split(" ");
  if (verb === "stop") {
    if (byHand) await commit();
    tell("leaving");
    await consumer.disconnect();
    tell("left");
    process.exit(0);
  } else if (verb === "rate") rate = Number(words[0]);
  else if (verb === "back") await back(Number(words[0]), words[1] === undefined ? undefined : Number(words[1]));
  else hold(verb, Number(words[0]));
}

async function read({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, isRunning, isStale }) {
  for (const one of batch.messages) {
    if (!isRunning() || isStale() || held.has(batch.partition)) return;
    if (rate) await pause(1000 / rate);
    resolveOffset(one.offset);
    at.set(`${batch.topic}-${batch.partition}`, Number(one.offset) + 1);
    await heartbeat();
    if (!byHand) await commitOffsetsIfNecessary();
  }
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void obey(line));
lines.on("close", () => void obey("stop"));
for (let isStarted = false; !isStarted; ) {
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: settings.topics, fromBeginning: true });
    isStarted = true;
  } catch {
    await pause(1000); // the broker may be away
  }
}
await consumer.run({
  autoCommit: !byHand,
  autoCommitInterval: settings.commit_ms,
  eachBatchAutoResolve: false,
  eachBatch: read,
});
if (byHand) setInterval(() => void commit(), settings.commit_ms);
