import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** `BOOTSTRAP TOPIC GROUP`: what Kafka's own client makes of transactions, line by line. Runs with clients from 3.7 on. */
public class Transactions {
    private static final String STRINGS = "org.apache.kafka.common.serialization.String";
    private static String bootstrap;

    private interface Step {
        void run() throws Exception;
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** Says what a step raised, by its class. */
    private static void attempt(String what, Step step) {
        try {
            step.run();
            say(what + ": ok");
        } catch (Exception failure) {
            Throwable cause = failure instanceof ExecutionException || failure.getClass().getSimpleName().equals("KafkaException") && failure.getCause() != null
                ? failure.getCause() : failure;
            say(what + ": " + cause.getClass().getSimpleName());
        }
    }

    private static KafkaProducer<String, String> producer(String id, String... more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", id);
        properties.put("key.serializer", STRINGS + "Serializer");
        properties.put("value.serializer", STRINGS + "Serializer");
        for (int i = 0; i < more.length; i += 2)
            properties.put(more[i], more[i + 1]);
        return new KafkaProducer<>(properties);
    }

    private static List<String> read(TopicPartition place, String isolation) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", isolation);
        properties.put("key.deserializer", STRINGS + "Deserializer");
        properties.put("value.deserializer", STRINGS + "Deserializer");
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long end = consumer.endOffsets(List.of(place)).get(place);
            while (consumer.position(place) < end)
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100)))
                    values.add(record.value());
        }
        return values;
    }

    private static Object committed(Admin admin, String group, TopicPartition place) throws Exception {
        OffsetAndMetadata offset = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(place);
        return offset == null ? "none" : offset.offset();
    }

    private static TransactionDescription described(Admin admin, String id) throws Exception {
        return admin.describeTransactions(List.of(id)).description(id).get();
    }

    private static List<ProducerState> open(Admin admin, TopicPartition place) throws Exception {
        List<ProducerState> found = new ArrayList<>();
        for (ProducerState one : admin.describeProducers(List.of(place)).partitionResult(place).get().activeProducers())
            if (one.currentTransactionStartOffset().isPresent())
                found.add(one);
        return found;
    }

    private static void ended(Admin admin, String id) throws Exception {
        while (!described(admin, id).state().toString().startsWith("Complete"))
            Thread.sleep(5);
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        String group = arguments[2], id = "java-" + group;
        TopicPartition place = new TopicPartition(arguments[1], 0);
        Map<TopicPartition, OffsetAndMetadata> seven = Map.of(place, new OffsetAndMetadata(7)), nine = Map.of(place, new OffsetAndMetadata(9));
        ConsumerGroupMetadata nobody = new ConsumerGroupMetadata(group);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            KafkaProducer<String, String> one = producer(id);
            one.initTransactions();
            one.beginTransaction();
            one.send(new ProducerRecord<>(place.topic(), "kept")).get();
            one.sendOffsetsToTransaction(seven, nobody);
            say("open: " + described(admin, id).state() + " " + described(admin, id).topicPartitions().size() + " partitions, " + open(admin, place).size() + " producer");
            say("committed before the end: " + committed(admin, group, place));
            say("shown before the end: " + read(place, "read_committed"));
            one.commitTransaction();
            ended(admin, id);
            say("committed: " + committed(admin, group, place) + ", " + described(admin, id).state() + ", " + open(admin, place).size() + " producers");
            one.beginTransaction();
            one.send(new ProducerRecord<>(place.topic(), "dropped")).get();
            one.sendOffsetsToTransaction(nine, nobody);
            one.abortTransaction();
            ended(admin, id);
            say("aborted: " + committed(admin, group, place) + ", " + described(admin, id).state());
            one.beginTransaction();
            one.send(new ProducerRecord<>(place.topic(), "of the zombie")).get();
            KafkaProducer<String, String> two = producer(id);
            two.initTransactions();
            attempt("the zombie sends", () -> one.send(new ProducerRecord<>(place.topic(), "late")).get());
            attempt("the zombie sends offsets", () -> one.sendOffsetsToTransaction(nine, nobody));
            attempt("the zombie commits", one::commitTransaction);
            attempt("the zombie aborts", one::abortTransaction);
            one.close(Duration.ZERO);
            two.beginTransaction();
            two.send(new ProducerRecord<>(place.topic(), "of the heir"));
            two.commitTransaction();
            ended(admin, id);
            two.beginTransaction();
            two.send(new ProducerRecord<>(place.topic(), "of the one that an operator fences")).get();
            admin.fenceProducers(List.of(id)).all().get();
            attempt("the fenced one commits", two::commitTransaction);
            two.close(Duration.ZERO);
            KafkaProducer<String, String> three = producer(id);
            three.initTransactions();
            three.beginTransaction();
            three.send(new ProducerRecord<>(place.topic(), "of the one that an operator aborts")).get();
            ProducerState state = open(admin, place).get(0);
            admin.abortTransaction(new AbortTransactionSpec(place, state.producerId(), (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all().get();
            say("aborted by an operator: " + open(admin, place).size() + " producers, coordinator: " + described(admin, id).state());
            three.close(Duration.ZERO);
            KafkaProducer<String, String> slow = producer(id + "-slow", "transaction.timeout.ms", "200");
            slow.initTransactions();
            slow.beginTransaction();
            slow.send(new ProducerRecord<>(place.topic(), "too slow")).get();
            ended(admin, id + "-slow");
            attempt("the slow one sends", () -> slow.send(new ProducerRecord<>(place.topic(), "late")).get());
            attempt("the slow one commits", slow::commitTransaction);
            attempt("the slow one aborts", slow::abortTransaction);
            attempt("the slow one begins anew", () -> {
                slow.beginTransaction();
                slow.send(new ProducerRecord<>(place.topic(), "slow, and anew"));
                slow.commitTransaction();
            });
            slow.close(Duration.ZERO);
            say("listed: " + admin.listTransactions().all().get().stream().filter(row -> row.transactionalId().startsWith(id)).count());
            say("shown: " + read(place, "read_committed"));
            say("written: " + read(place, "read_uncommitted").size());
        }
        System.exit(0);
    }
}
