import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Share groups with known stories, each on a topic of its own: Shares --bootstrap-server BOOTSTRAP. The names of the
 * groups are the stories. The log is recorded for tests of the pipeline.
 */
public class Shares {
    private static final long SECONDS = 45;
    private static final long LONG_SECONDS = 90;
    private static String bootstrap;

    private interface Worker {
        void run(KafkaShareConsumer<String, String> consumer, long untilMs) throws Exception;
    }

    public static void main(String[] words) throws Exception {
        bootstrap = words[1];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            List<NewTopic> topics = new ArrayList<>();
            for (String name : List.of("steady", "poison", "rejected", "slow", "failing", "letters")) {
                topics.add(new NewTopic(name, 1, (short) 1));
            }
            topics.add(new NewTopic("stuck", 2, (short) 1));
            topics.add(new NewTopic("starved", 2, (short) 1));
            topics.add(new NewTopic("dlq.letters", 1, (short) 1).configs(Map.of("errors.deadletterqueue.group.enable", "true")));
            admin.createTopics(topics).all().get();
            for (String group : List.of("steady", "poison", "rejected", "slow", "failing", "letters", "stuck", "starved")) {
                set(admin, group, "share.auto.offset.reset", "earliest");
            }
            set(admin, "slow", "share.record.lock.duration.ms", "2000");
            set(admin, "letters", "share.delivery.count.limit", "2");
            set(admin, "letters", "errors.deadletterqueue.topic.name", "dlq.letters");
        }
        List<Thread> threads = new ArrayList<>();
        CountDownLatch joined = new CountDownLatch(2);
        work(threads, "steady", "a", Shares::accept);
        work(threads, "steady", "b", Shares::accept);
        work(threads, "poison", "a", (consumer, untilMs) -> each(consumer, untilMs, 5, record ->
            record.value().equals("record 42") ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT, 20));
        work(threads, "rejected", "a", (consumer, untilMs) -> each(consumer, untilMs, 5, record ->
            record.value().equals("record 10") ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT, 20));
        work(threads, "slow", "a", (consumer, untilMs) -> each(consumer, untilMs, 5, record ->
            AcknowledgeType.ACCEPT, 3000));
        work(threads, "slow", "b", (consumer, untilMs) -> each(consumer, untilMs, 5, record ->
            AcknowledgeType.ACCEPT, 400));
        work(threads, "failing", "a", (consumer, untilMs) -> each(consumer, untilMs, 5, record ->
            AcknowledgeType.RELEASE, 20));
        work(threads, "letters", "a", (consumer, untilMs) -> each(consumer, untilMs, 5, record ->
            record.value().equals("record 7") ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT, 20));
        for (String name : List.of("a", "b")) {
            work(threads, "starved", name, Shares::accept);
            work(threads, "stuck", name, (consumer, untilMs) -> {
                consumer.poll(Duration.ofMillis(200));
                joined.countDown();
                joined.await(20, TimeUnit.SECONDS);
                if (name.equals("a")) {
                    accept(consumer, untilMs);
                } else {
                    Thread.sleep(Math.max(0, untilMs - System.currentTimeMillis()));
                }
            });
        }
        Thread.sleep(6000);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < 120; number++) {
                for (String topic : List.of("steady", "poison", "rejected", "slow", "failing", "letters")) {
                    if (!(topic.equals("failing") && number >= 20)) {
                        producer.send(new ProducerRecord<>(topic, "record " + number));
                    }
                }
                producer.flush();
                Thread.sleep(80);
            }
            for (int number = 0; number < 100; number++) {
                producer.send(new ProducerRecord<>("stuck", number % 2, null, "record " + number));
                producer.send(new ProducerRecord<>("starved", 0, null, "record " + number));
                producer.flush();
                Thread.sleep(650);
            }
        }
        for (Thread thread : threads) {
            thread.join(120_000);
        }
        System.exit(0);
    }

    private static void set(Admin admin, String group, String name, String value) throws Exception {
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group),
            List.of(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)))).all().get();
    }

    private static void work(List<Thread> threads, String group, String name, Worker worker) {
        long seconds = group.startsWith("st") && !group.equals("steady") ? LONG_SECONDS : SECONDS;
        long untilMs = System.currentTimeMillis() + seconds * 1000;
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", group, "client.id", group + "-" + name,
            "share.acknowledgement.mode", "explicit", "max.poll.records", "10");
        Thread thread = new Thread(() -> {
            try (KafkaShareConsumer<String, String> consumer =
                     new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(group));
                worker.run(consumer, untilMs);
            } catch (Exception error) {
                System.out.println(group + "-" + name + ": " + error);
            }
        });
        thread.start();
        threads.add(thread);
    }

    private static void accept(KafkaShareConsumer<String, String> consumer, long untilMs) throws Exception {
        each(consumer, untilMs, 50, record -> AcknowledgeType.ACCEPT, 0);
    }

    private interface Judge {
        AcknowledgeType of(ConsumerRecord<String, String> record);
    }

    /** Acknowledges each record after the same work, and commits after each poll. */
    private static void each(KafkaShareConsumer<String, String> consumer, long untilMs, int most, Judge judge, long workMs)
            throws Exception {
        while (System.currentTimeMillis() < untilMs) {
            boolean isFirst = true;
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(300))) {
                if (isFirst && workMs > 0) {
                    Thread.sleep(workMs);
                }
                isFirst = false;
                try {
                    consumer.acknowledge(record, judge.of(record));
                } catch (IllegalStateException error) {
                    System.out.println(error);
                }
            }
            consumer.commitSync().forEach((partition, error) -> error.ifPresent(found -> System.out.println(found)));
        }
    }
}
