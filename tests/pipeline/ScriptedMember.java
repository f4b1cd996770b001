// One consumer process of a scripted history (scripted_processes.py) by Kafka's own library: the same lines on stdin and stdout
// as scripted_member.py. Arguments: commits (auto, parting, now-and-then), commit interval in ms, topics with commas, property=value ...
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class ScriptedMember implements ConsumerRebalanceListener {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final String commits;
    private final ConcurrentLinkedQueue<String> told = new ConcurrentLinkedQueue<>();
    private String said = "";

    ScriptedMember(String commits, List<String> topics, Properties properties) {
        this.commits = commits;
        consumer = new KafkaConsumer<>(properties);
        consumer.subscribe(topics, this);
    }

    @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        if (commits.equals("parting")) commit();
    }

    @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) { tell(); }

    private void commit() {
        try {
            consumer.commitSync();
        } catch (KafkaException later) {
            // a rebalance is under way
        }
    }

    private static Object field(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }

    /** Only the leader can make its group rebalance by joining again; the library does not tell who that is. */
    private boolean leads() {
        try {
            return (boolean) field(field(field(consumer, "delegate"), "coordinator"), "isLeader");
        } catch (ReflectiveOperationException notThere) {
            return false; // group.protocol=consumer knows no leader
        }
    }

    private void tell() {
        String now = consumer.groupMetadata().generationId() + " " + consumer.assignment().size() + (leads() ? " 1" : " 0");
        if (!now.equals(said)) System.out.println(now);
        said = now;
    }

    private void read() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) told.add(line);
        } catch (java.io.IOException end) {
            // as if it were the end
        }
        told.add("stop");
    }

    private void run(long commitMs) {
        long due = System.currentTimeMillis() + commitMs;
        while (true) {
            consumer.poll(Duration.ofMillis(100));
            tell();
            if (!commits.equals("auto") && System.currentTimeMillis() >= due) {
                due = System.currentTimeMillis() + (long) (commitMs * ThreadLocalRandom.current().nextDouble(0.5, 1.5));
                commit();
            }
            for (String line = told.poll(); line != null; line = told.poll()) {
                String[] words = line.split(" ");
                if (words[0].equals("subscribe")) consumer.subscribe(List.of(words).subList(1, words.length), this);
                else if (words[0].equals("rejoin")) consumer.enforceRebalance();
                else {
                    if (commits.equals("parting")) commit();
                    consumer.close();
                    return;
                }
            }
        }
    }

    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        for (int i = 3; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        ScriptedMember member = new ScriptedMember(arguments[0], List.of(arguments[2].split(",")), properties);
        Thread reader = new Thread(member::read);
        reader.setDaemon(true);
        reader.start();
        member.run(Long.parseLong(arguments[1]));
        System.exit(0);
    }
}
