import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;

/** The application with Kafka's own client: one producer, the group's generation fences. The words are those of common.py. */
public class Worker {
    private static final int MAX_RECORDS = 10;
    private static final int ABORTED_ONE_IN = 8;
    private static final Random RANDOM = new Random();
    private static volatile boolean ending;

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static Properties properties(String bootstrap, String... pairs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("reconnect.backoff.max.ms", "200");
        properties.put("retry.backoff.ms", "20");
        for (int i = 0; i < pairs.length; i += 2)
            properties.put(pairs[i], pairs[i + 1]);
        return properties;
    }

    public static void main(String[] arguments) throws Exception {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0);
            } catch (java.io.IOException end) {
                // it ends all the same
            }
            ending = true;
        });
        watch.setDaemon(true);
        watch.start();
        String bootstrap = arguments[0], group = arguments[1], input = arguments[2], output = arguments[3], name = arguments[5];
        int partitions = Integer.parseInt(arguments[4]);
        String strings = "org.apache.kafka.common.serialization.String";
        Properties consuming = properties(bootstrap, "group.id", group, "isolation.level", "read_committed", "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "session.timeout.ms", "1500", "heartbeat.interval.ms", "200", "fetch.max.wait.ms", "100",
            "max.poll.records", "" + MAX_RECORDS, "key.deserializer", strings + "Deserializer", "value.deserializer", strings + "Deserializer");
        if (arguments.length > 6)
            consuming.put("group.instance.id", name);
        Properties producing = properties(bootstrap, "transactional.id", group + "-" + name, "transaction.timeout.ms", "20000",
            "key.serializer", strings + "Serializer", "value.serializer", strings + "Serializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producing); KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consuming)) {
            producer.initTransactions();
            consumer.subscribe(List.of(input), new ConsumerRebalanceListener() {
                @Override public void onPartitionsAssigned(Collection<TopicPartition> assigned) { say("joined " + assigned.size()); }
                @Override public void onPartitionsRevoked(Collection<TopicPartition> revoked) { }
            });
            while (!ending) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                if (!records.isEmpty())
                    transaction(producer, consumer, records, output, partitions, name);
            }
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            say("fenced " + fenced.getClass().getSimpleName());
            System.exit(1);
        } catch (KafkaException failure) {
            say("failed " + failure);
            System.exit(1);
        }
        System.exit(0);
    }

    private static void transaction(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> records,
                                    String output, int partitions, String name) {
        producer.beginTransaction();
        try {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                String made = record.partition() + ":" + record.offset() + ":" + record.value() + ":" + name;
                producer.send(new ProducerRecord<>(output, Integer.parseInt(record.value()) % partitions, null, made));
                offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            if (RANDOM.nextInt(ABORTED_ONE_IN) == 0) {
                producer.flush();
                say("aborted");
                giveUp(producer, consumer);
                return;
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            while (true) {
                try {
                    producer.commitTransaction();
                    break;
                } catch (TimeoutException again) {
                    // it may be asked again
                }
            }
            say("committed " + records.count());
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            throw fenced;
        } catch (KafkaException failure) {
            say("gave-up " + failure.getClass().getSimpleName());
            giveUp(producer, consumer);
        }
    }

    private static void giveUp(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer) {
        producer.abortTransaction();
        consumer.committed(consumer.assignment()).forEach((place, offset) -> consumer.seek(place, offset == null ? 0 : offset.offset()));
    }
}
