// One trial of Kafka's own client, with the stages and lines of python_clients.py: PROTOCOL BOOTSTRAP TOPIC GROUP SECONDS
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

public class Trial {
    private static String protocol, bootstrap, topic, group;
    private static long seconds;

    interface Job<T> {
        T run() throws Exception;
    }

    private static void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }

    private static <T> T stage(String name, Job<T> job) {
        try {
            return job.run();
        } catch (Throwable error) {
            Throwable cause = error.getCause() != null ? error.getCause() : error;
            say("error " + name + " " + cause.getClass().getSimpleName() + " " + cause.getMessage());
            Runtime.getRuntime().halt(0);
            return null;
        }
    }

    private static Properties properties(String... more) {
        Properties found = new Properties();
        found.put("bootstrap.servers", bootstrap);
        for (String part : List.of("key", "value")) {
            found.put(part + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
            found.put(part + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        }
        for (int i = 0; i < more.length; i += 2) found.put(more[i], more[i + 1]);
        return found;
    }

    private static Object produce(int count) throws Exception {
        String limit = Long.toString(seconds * 1000);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties("delivery.timeout.ms", limit, "request.timeout.ms", "3000", "max.block.ms", limit, "linger.ms", "0"))) {
            for (int i = 0; i < count; i++)
                producer.send(new ProducerRecord<>(topic, 0, null, Integer.toString(i))).get(seconds, TimeUnit.SECONDS);
        }
        return null;
    }

    private static KafkaConsumer<String, String> consumer() {
        Properties found = properties(
                "group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false",
                "default.api.timeout.ms", "8000", "request.timeout.ms", "5000", "group.protocol", protocol);
        if (protocol.equals("classic")) {
            found.put("session.timeout.ms", "6000");
            found.put("heartbeat.interval.ms", "300");
        }
        KafkaConsumer<String, String> made = new KafkaConsumer<>(found);
        made.subscribe(List.of(topic));
        return made;
    }

    private static long consume(KafkaConsumer<String, String> made, int count) {
        long end = System.nanoTime() + seconds * 1_000_000_000L, first = -1;
        while (count > 0) {
            for (ConsumerRecord<String, String> record : made.poll(Duration.ofMillis(200))) {
                if (first < 0) first = record.offset();
                count--;
            }
            if (count > 0 && System.nanoTime() > end) throw new RuntimeException("Late");
        }
        return first;
    }

    public static void main(String[] words) {
        protocol = words[0];
        bootstrap = words[1];
        topic = words[2];
        group = words[3];
        seconds = (long) Double.parseDouble(words[4]);
        stage("produce", () -> produce(3));
        say("produced");
        KafkaConsumer<String, String> one = stage("join", Trial::consumer);
        say("consumed " + stage("consume", () -> consume(one, 3)));
        stage("beat", () -> {
            long end = System.nanoTime() + 1_000_000_000L;
            while (System.nanoTime() < end) one.poll(Duration.ofMillis(100));
            return null;
        });
        stage("commit", () -> {
            one.commitSync();
            return null;
        });
        say("committed");
        stage("close", () -> {
            one.close();
            return null;
        });
        say("closed");
        stage("produce", () -> produce(1));
        KafkaConsumer<String, String> two = stage("join", Trial::consumer);
        say("resumed " + stage("resume", () -> consume(two, 1)));
        two.close();
    }
}
