// One consumer process of a recording (record.py) by Kafka's own library: told on stdin and telling on stdout what member.py is and
// tells. Arguments: commits (auto, hand or transactions), commit interval in ms, by how many records it goes back when it is given partitions,
// topics with commas, records a second at most (0: no limit), property=value ...
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class RecordedMember implements ConsumerRebalanceListener {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final boolean byHand;
    private final Properties ofWriter;
    private KafkaProducer<byte[], byte[]> writer;
    private final boolean isConsumerProtocol;
    private final long rewinds;
    private long rate;
    private final ConcurrentLinkedQueue<String> told = new ConcurrentLinkedQueue<>();
    private final Set<Integer> held = new HashSet<>();
    private final Set<Integer> silent = new HashSet<>();

    RecordedMember(String commits, long rewinds, List<String> topics, long rate, Properties properties) {
        byHand = !commits.equals("auto");
        ofWriter = commits.equals("transactions") ? ofWriter(properties) : null;
        this.rewinds = rewinds;
        this.rate = rate;
        consumer = new KafkaConsumer<>(properties);
        isConsumerProtocol = "consumer".equals(properties.get("group.protocol"));
        subscribe(topics);
    }

    /** A topic that begins with ^ is a pattern: the broker's with the consumer protocol, else the client's. */
    private void subscribe(List<String> topics) {
        String first = topics.get(0);
        if (!first.startsWith("^")) consumer.subscribe(topics, this);
        else if (isConsumerProtocol) consumer.subscribe(new SubscriptionPattern(first), this);
        else consumer.subscribe(Pattern.compile(first), this);
    }

    /** The producer of an exactly-once application: it commits offsets in transactions. */
    private static Properties ofWriter(Properties properties) {
        Properties found = new Properties();
        found.put("bootstrap.servers", properties.get("bootstrap.servers"));
        found.put("transactional.id", properties.get("client.id"));
        found.put("key.serializer", ByteArraySerializer.class.getName());
        found.put("value.serializer", ByteArraySerializer.class.getName());
        found.put("max.block.ms", "10000");
        found.put("buffer.memory", "1000000");
        return found;
    }

    /** After an error, the next producer ends what this one has begun. */
    private void write(Map<TopicPartition, OffsetAndMetadata> wanted) {
        try {
            if (writer == null) {
                writer = new KafkaProducer<>(ofWriter);
                writer.initTransactions();
            }
            writer.beginTransaction();
            writer.sendOffsetsToTransaction(wanted, consumer.groupMetadata());
            writer.commitTransaction();
        } catch (KafkaException error) {
            if (writer != null) writer.close(Duration.ZERO);
            writer = null;
            throw error;
        }
    }

    private static synchronized void tell(String what, String more) {
        System.out.println("{\"at\": " + System.currentTimeMillis() + ", \"what\": \"" + what + "\"" + more + "}");
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return ", \"partitions\": " + partitions.stream().map(TopicPartition::partition).toList();
    }

    private static String places(Map<TopicPartition, Long> places) {
        return ", \"places\": [" + places.entrySet().stream()
            .map(one -> "[\"" + one.getKey().topic() + "\", " + one.getKey().partition() + ", " + one.getValue() + "]")
            .collect(Collectors.joining(", ")) + "]";
    }

    @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        if (byHand) commit();
        tell("revoked", numbers(partitions));
    }

    @Override public void onPartitionsLost(Collection<TopicPartition> partitions) { tell("lost", numbers(partitions)); }

    @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        if (rewinds > 0) {
            Map<TopicPartition, Long> new_ = new HashMap<>();
            for (TopicPartition one : partitions) new_.put(one, Math.max(consumer.position(one) - rewinds, 0));
            new_.forEach(consumer::seek);
            commit();
            tell("back", places(new_));
        }
        tell("assigned", numbers(partitions));
    }

    private void commit() {
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        Map<TopicPartition, Long> at = new HashMap<>();
        try {
            for (TopicPartition one : consumer.assignment()) {
                if (silent.contains(one.partition())) continue;
                at.put(one, consumer.position(one, Duration.ofSeconds(1)));
                wanted.put(one, new OffsetAndMetadata(at.get(one)));
            }
            if (wanted.isEmpty()) return;
            if (ofWriter == null) consumer.commitSync(wanted);
            else write(wanted);
            tell("committed", places(at));
        } catch (KafkaException later) {
            // a rebalance is under way
        }
    }

    private void read() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) told.add(line);
        } catch (java.io.IOException end) {
            // as if it were the end
        }
        told.add("stop");
    }

    private void hold(int partition, String verb) {
        held.remove(partition);
        silent.remove(partition);
        if (!verb.equals("go")) held.add(partition);
        if (verb.equals("pause")) silent.add(partition);
        List<TopicPartition> these = consumer.assignment().stream().filter(one -> one.partition() == partition).toList();
        if (verb.equals("go")) consumer.resume(these);
        else consumer.pause(these);
    }

    private void back(long records, int only) {
        Map<TopicPartition, Long> new_ = new HashMap<>();
        for (TopicPartition one : consumer.assignment()) {
            if (only < 0 || one.partition() == only) new_.put(one, Math.max(consumer.position(one) - records, 0));
        }
        new_.forEach(consumer::seek);
        if (byHand) commit();
        tell("back", places(new_));
    }

    private void run(long commitMs) throws InterruptedException {
        long due = System.currentTimeMillis() + commitMs;
        while (true) {
            int read = consumer.poll(Duration.ofMillis(100)).count();
            if (rate > 0) Thread.sleep(1000L * read / rate);
            if (byHand && System.currentTimeMillis() >= due) {
                due = System.currentTimeMillis() + commitMs;
                commit();
            }
            for (String line = told.poll(); line != null; line = told.poll()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "sleep" -> Thread.sleep((long) (Double.parseDouble(words[1]) * 1000));
                    case "back" -> back(Long.parseLong(words[1]), words.length > 2 ? Integer.parseInt(words[2]) : -1);
                    case "hang" -> {
                        while (told.isEmpty()) Thread.sleep(100);
                    }
                    case "wake" -> { }
                    case "rate" -> rate = Long.parseLong(words[1]);
                    case "subscribe" -> subscribe(List.of(words).subList(1, words.length));
                    case "stop" -> {
                        if (byHand) commit();
                        tell("leaving", "");
                        consumer.close();
                        tell("left", "");
                        return;
                    }
                    default -> hold(Integer.parseInt(words[1]), words[0]);
                }
            }
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Properties properties = new Properties();
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        for (int i = 5; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        RecordedMember member = new RecordedMember(
            arguments[0], Long.parseLong(arguments[2]), List.of(arguments[3].split(",")), Long.parseLong(arguments[4]), properties);
        Thread reader = new Thread(member::read);
        reader.setDaemon(true);
        reader.start();
        member.run(Long.parseLong(arguments[1]));
        System.exit(0);
    }
}
