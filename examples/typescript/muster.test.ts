// Tests of consumers of kafkajs, with nothing that sleeps.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { type Consumer, Kafka, logLevel } from "kafkajs";
import { Muster, MusterError } from "./muster.js";

let muster: Muster;
let started: Consumer[] = [];

before(async () => { muster = await Muster.start({ topics: { orders: 4, payments: 1, parcels: 2 } }); });
after(() => muster.stop());
afterEach(async () => {
  await muster.faults.clear();
  await Promise.all(started.map((consumer) => consumer.disconnect()));
  started = [];
});

async function consume(clientId: string, groupId: string, topic: string, seen: (value: string) => void = () => {}) {
  const kafka = new Kafka({ clientId, brokers: muster.bootstrapServers.split(","), logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 100, maxWaitTimeInMs: 100, retry: { initialRetryTime: 50 } });
  started.push(consumer);
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ autoCommitInterval: 100, eachMessage: async ({ message }) => seen(String(message.value)) });
}

test("two consumers share a topic; one that falls silent loses its share", async () => {
  const group = muster.group("shop");
  await consume("one", "shop", "orders");
  await consume("two", "shop", "orders");
  const stable = await group.waitStable({ members: 2, partitions: "orders" });
  assert.deepEqual(stable.members.map((member) => member.assignment[0]?.partitions.length), [2, 2]);

  await group.expire({ client_id: "two" });
  // kafkajs comes back by itself: the rebalances of its leaving and of its return
  const later = await group.waitStable({ members: 2, partitions: "orders" });
  assert.ok(later.generation > stable.generation);
  assert.match((await group.timeline()).join("\n"), /two/);
});

test("a join that is refused once is made again", async () => {
  await muster.topic("payments").produce("paid");
  const rule = await muster.faults.add({
    match: { api: "JoinGroup", group: "till" },
    then: { do: "error", error: "COORDINATOR_LOAD_IN_PROGRESS" },
    when: { once: true },
  });
  const seen: string[] = [];
  await consume("till-1", "till", "payments", (value) => seen.push(value));
  const offsets = await muster.group("till").waitConsumed("payments");
  assert.deepEqual([seen[0], offsets.lag], ["paid", 0]);
  assert.deepEqual((await muster.faults.log()).map((hit) => [hit.rule, hit.api]), [[rule.id, "JoinGroup"]]);
});

test("a rebalance lasts as long as the test wants", async () => {
  const group = muster.group("depot");
  await consume("a", "depot", "parcels");
  await group.waitStable({ members: 1, partitions: "parcels" });
  await group.holdJoins();
  await group.rebalance();
  await assert.rejects(group.waitStable({ timeoutMs: 300 }), (error: MusterError) => error.code === "timeout");
  await group.release();
  await group.waitStable({ members: 1, partitions: "parcels" });
});
