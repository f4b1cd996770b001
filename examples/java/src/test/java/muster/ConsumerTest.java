package muster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Tests of Kafka's own consumers, with nothing that sleeps. */
@Timeout(60)
class ConsumerTest {
    @RegisterExtension
    static final MusterExtension MUSTER =
            new MusterExtension(new Muster.Options().topic("orders", 4).topic("payments", 1).topic("parcels", 2));

    private final List<Reading> started = new ArrayList<>();

    /** A member of a group in a thread of its own. */
    private static final class Reading {
        final BlockingQueue<String> values = new LinkedBlockingQueue<>();
        private final KafkaConsumer<String, String> consumer;
        private final Thread thread;

        Reading(Muster muster, String clientId, String group, String topic) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", muster.bootstrapServers());
            properties.put("client.id", clientId);
            properties.put("group.id", group);
            properties.put("auto.offset.reset", "earliest");
            properties.put("auto.commit.interval.ms", "100");
            properties.put("heartbeat.interval.ms", "100");
            consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic));
            thread = new Thread(this::read, clientId);
            thread.start();
        }

        private void read() {
            try (consumer) {
                while (true) {
                    consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
                }
            } catch (WakeupException end) {
                // closed by the block
            }
        }

        void close() throws InterruptedException {
            consumer.wakeup();
            thread.join();
        }
    }

    private Reading consume(Muster muster, String clientId, String group, String topic) {
        Reading reading = new Reading(muster, clientId, group, topic);
        started.add(reading);
        return reading;
    }

    @AfterEach
    void closeConsumers() throws InterruptedException {
        for (Reading reading : started) {
            reading.close();
        }
    }

    @Test
    void twoConsumersShareATopicAndOneThatFallsSilentLosesItsShare(Muster muster) {
        Muster.Group group = muster.group("shop");
        consume(muster, "one", "shop", "orders");
        consume(muster, "two", "shop", "orders");
        var stable = group.waitStable(2, "orders");
        for (var member : stable.get("members")) {
            assertEquals(2, member.at("/assignment/0/partitions").size());
        }
        group.expire("two");
        // Kafka's consumer comes back by itself: the rebalances of its leaving and of its return
        var later = group.waitStable(2, "orders");
        assertTrue(later.get("generation").asInt() > stable.get("generation").asInt());
        assertTrue(String.join("\n", group.timeline()).contains("two"));
    }

    @Test
    void aCommitThatIsRefusedOnceIsMadeAgain(Muster muster) throws InterruptedException {
        muster.produce("payments", "paid");
        String rule = muster.addFault(
                Map.of("api", "OffsetCommit", "group", "till"),
                Map.of("do", "error", "error", "COORDINATOR_LOAD_IN_PROGRESS"),
                Map.of("once", true));
        Reading till = consume(muster, "till-1", "till", "payments");
        assertEquals("paid", till.values.poll(30, TimeUnit.SECONDS));
        assertEquals(0, muster.group("till").waitConsumed("payments").get("lag").asInt());
        var hits = muster.faultLog();
        assertEquals(1, hits.size());
        assertEquals(rule, hits.get(0).get("rule").asText());
        assertEquals("OffsetCommit", hits.get(0).get("api").asText());
    }

    @Test
    void aRebalanceLastsAsLongAsTheTestWants(Muster muster) {
        Muster.Group group = muster.group("depot");
        consume(muster, "a", "depot", "parcels");
        group.waitStable(1, "parcels");
        group.holdJoins();
        group.rebalance();
        var waiting = assertThrows(Muster.Refused.class, () -> group.waitStable(null, null, Duration.ofMillis(300)));
        assertEquals("timeout", waiting.code);
        group.release();
        group.waitStable(1, "parcels");
    }
}
