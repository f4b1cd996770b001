// Kafka's own producers and consumers, told by lines on stdin what to do, telling on stdout what happened:
//   consume NAME GROUP TOPIC [property=value ...]   a consumer in a thread of its own; commits after each poll and before it gives partitions up.
//                                                   ~TOPIC is a pattern that the server resolves (group.protocol=consumer)
//   hold NAME                                       let it poll no more, until `go NAME`
//   stop NAME [LEAVE_GROUP|REMAIN_IN_GROUP]         close it                               -> stopped NAME
//   produce TOPIC FIRST COUNT [property=value ...]  keys and values are the numbers        -> produced COUNT
// and of each consumer: assigned|revoked|lost NAME partitions..., record NAME TOPIC PARTITION OFFSET; failed WHO WHY. Ends at the end of stdin.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;

public class Clients {
    private static String bootstrap;

    private static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }

    private static Properties properties(String kind, String[] words, int from) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        String role = kind.equals("consumer") ? "deserializer" : "serializer";
        String type = kind.equals("consumer") ? "Deserializer" : "Serializer";
        for (String part : List.of("key", "value"))
            properties.put(part + "." + role, "org.apache.kafka.common.serialization.String" + type);
        for (int i = from; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        return properties;
    }

    static final class Member implements ConsumerRebalanceListener, Runnable {
        private final String name;
        private final KafkaConsumer<String, String> consumer;
        private final Map<TopicPartition, OffsetAndMetadata> processed = new HashMap<>();
        private final Thread thread;
        private volatile boolean stopping;
        private volatile GroupMembershipOperation goodbye;
        private boolean held;

        Member(String name, String group, String topic, Properties properties) {
            this.name = name;
            properties.put("group.id", group);
            properties.put("client.id", name);
            properties.putIfAbsent("enable.auto.commit", "false");
            properties.putIfAbsent("auto.offset.reset", "earliest");
            if (!"consumer".equals(properties.get("group.protocol"))) {
                properties.putIfAbsent("heartbeat.interval.ms", "50");
                properties.putIfAbsent("session.timeout.ms", "10000");
            }
            properties.putIfAbsent("fetch.max.wait.ms", "100");
            consumer = new KafkaConsumer<>(properties);
            if (topic.startsWith("~")) consumer.subscribe(new SubscriptionPattern(topic.substring(1)), this);
            else consumer.subscribe(List.of(topic), this);
            thread = new Thread(this, name);
            thread.start();
        }

        private void tell(String what, Collection<TopicPartition> partitions) {
            StringBuilder line = new StringBuilder(what + " " + name);
            for (TopicPartition partition : partitions) line.append(' ').append(partition.partition());
            say(line.toString());
        }

        private void commit() {
            if (!processed.isEmpty()) consumer.commitSync(processed);
            processed.clear();
        }

        private void commitUnlessRebalancing() {
            try {
                commit();
            } catch (RebalanceInProgressException later) {
                // a cooperative rebalance is under way: committed after the next poll, or when partitions are revoked
            }
        }

        synchronized void hold(boolean hold) {
            held = hold;
            notifyAll();
        }

        private synchronized void awaitGo() throws InterruptedException {
            while (held && !stopping) wait();
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) { tell("assigned", partitions); }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit();
            tell("revoked", partitions);
        }

        @Override public void onPartitionsLost(Collection<TopicPartition> partitions) {
            processed.clear();
            tell("lost", partitions);
        }

        @Override public void run() {
            try {
                while (!stopping) {
                    awaitGo();
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        say("record " + name + " " + record.topic() + " " + record.partition() + " " + record.offset());
                        processed.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                    }
                    commitUnlessRebalancing();
                }
                commitUnlessRebalancing();
            } catch (WakeupException end) {
                // stop() was called during poll
            } catch (Exception failure) {
                say("failed " + name + " " + failure);
            }
            try {
                consumer.close(CloseOptions.groupMembershipOperation(goodbye));
            } catch (Exception failure) {
                say("failed " + name + " to close: " + failure);
            }
            say("stopped " + name);
        }

        void stop(GroupMembershipOperation how) throws InterruptedException {
            goodbye = how;
            stopping = true;
            hold(false);
            thread.join();
        }
    }

    private static void produce(String[] words) {
        int first = Integer.parseInt(words[2]), count = Integer.parseInt(words[3]);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties("producer", words, 4))) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = first; i < first + count; i++) sent.add(producer.send(new ProducerRecord<>(words[1], "" + i, "" + i)));
            for (Future<RecordMetadata> future : sent) future.get();
            say("produced " + count);
        } catch (Exception failure) {
            say("failed producer " + failure);
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Map<String, Member> members = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "consume" -> members.put(words[1], new Member(words[1], words[2], words[3], properties("consumer", words, 4)));
                case "hold" -> members.get(words[1]).hold(true);
                case "go" -> members.get(words[1]).hold(false);
                case "stop" -> members.remove(words[1]).stop(GroupMembershipOperation.valueOf(words.length > 2 ? words[2] : "DEFAULT"));
                case "produce" -> new Thread(() -> produce(words)).start();
                default -> say("failed main does not know " + line);
            }
        }
        for (Member member : members.values()) member.stop(GroupMembershipOperation.DEFAULT);
    }
}
