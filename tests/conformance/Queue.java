import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Three KafkaShareConsumers read a topic: Queue --bootstrap-server BOOTSTRAP TOPIC GROUP COUNT MODE. In the explicit
 * mode each tenth record or so is released. Prints how many records were accepted, and how many of them twice.
 */
public class Queue {
    public static void main(String[] words) throws Exception {
        String bootstrap = words[1];
        String topic = words[2];
        String group = words[3];
        int count = Integer.parseInt(words[4]);
        String mode = words[5];
        ConcurrentHashMap<String, AtomicInteger> accepted = new ConcurrentHashMap<>();
        AtomicInteger sum = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            Random random = new Random(number);
            Thread thread = new Thread(() -> consume(bootstrap, topic, group, mode, count, accepted, sum, random));
            thread.start();
            threads.add(thread);
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap, "linger.ms", "5"), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(topic, "record " + number));
            }
        }
        for (Thread thread : threads) {
            thread.join(60_000);
        }
        long twice = accepted.values().stream().filter(times -> times.get() > 1).count();
        System.out.println(accepted.size() + " accepted, " + twice + " twice");
        System.exit(0);
    }

    private static void consume(String bootstrap, String topic, String group, String mode, int count,
                                Map<String, AtomicInteger> accepted, AtomicInteger sum, Random random) {
        Map<String, Object> settings =
            Map.of("bootstrap.servers", bootstrap, "group.id", group, "share.acknowledgement.mode", mode);
        try (KafkaShareConsumer<String, String> consumer =
                 new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (sum.get() < count) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    boolean isReleased = mode.equals("explicit") && random.nextInt(10) == 0 && record.deliveryCount().get() < 4;
                    if (mode.equals("explicit")) {
                        consumer.acknowledge(record, isReleased ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    }
                    if (!isReleased) {
                        accepted.computeIfAbsent(record.value(), key -> new AtomicInteger()).incrementAndGet();
                        sum.incrementAndGet();
                    }
                }
                consumer.commitSync().forEach((partition, error) -> error.ifPresent(found -> System.out.println(found)));
            }
        }
    }
}
