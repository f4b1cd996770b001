import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.event.ConsumerStoppedEvent;
import org.springframework.kafka.listener.BatchMessageListener;
import org.springframework.kafka.listener.ConsumerAwareRebalanceListener;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.transaction.support.DefaultTransactionStatus;

/** The application with Spring for Apache Kafka: a listener container whose transactions send the offsets. The words are those of common.py. */
public class SpringWorker {
    private static final int ABORTED_ONE_IN = 8;
    private static final Random RANDOM = new Random();
    private static int taken;

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static Map<String, Object> settings(String bootstrap, Object... pairs) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "reconnect.backoff.max.ms", "200", "retry.backoff.ms", "20"));
        for (int i = 0; i < pairs.length; i += 2)
            settings.put((String) pairs[i], pairs[i + 1]);
        return settings;
    }

    private static final class Manager extends KafkaTransactionManager<String, String> {
        Manager(DefaultKafkaProducerFactory<String, String> factory) {
            super(factory);
        }

        @Override protected void doCommit(DefaultTransactionStatus status) {
            super.doCommit(status);
            say("committed " + taken);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], group = arguments[1], input = arguments[2], output = arguments[3], name = arguments[5];
        int partitions = Integer.parseInt(arguments[4]);
        String strings = "org.apache.kafka.common.serialization.String";
        Map<String, Object> consuming = settings(bootstrap, "group.id", group, "isolation.level", "read_committed", "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "session.timeout.ms", "1500", "heartbeat.interval.ms", "200", "fetch.max.wait.ms", "100",
            "max.poll.records", "10", "key.deserializer", strings + "Deserializer", "value.deserializer", strings + "Deserializer");
        if (arguments.length > 6)
            consuming.put("group.instance.id", name);
        DefaultKafkaProducerFactory<String, String> producers = new DefaultKafkaProducerFactory<>(settings(bootstrap, "transaction.timeout.ms", "20000",
            "key.serializer", strings + "Serializer", "value.serializer", strings + "Serializer"));
        producers.setTransactionIdPrefix(group + "-" + name + "-");
        KafkaTemplate<String, String> template = new KafkaTemplate<>(producers);
        ContainerProperties container = new ContainerProperties(input);
        container.setKafkaAwareTransactionManager(new Manager(producers));
        container.setPollTimeout(100);
        // else a fenced container goes on behind the records of its lost transaction, which nobody does again
        container.setStopContainerWhenFenced(true);
        container.setConsumerRebalanceListener(new ConsumerAwareRebalanceListener() {
            @Override public void onPartitionsAssigned(Consumer<?, ?> consumer, Collection<TopicPartition> assigned) { say("joined " + assigned.size()); }
        });
        container.setMessageListener((BatchMessageListener<String, String>) (List<ConsumerRecord<String, String>> records) -> {
            for (ConsumerRecord<String, String> record : records) {
                String made = record.partition() + ":" + record.offset() + ":" + record.value() + ":" + name;
                template.send(output, Integer.parseInt(record.value()) % partitions, null, made);
            }
            if (RANDOM.nextInt(ABORTED_ONE_IN) == 0) {
                template.flush();
                say("aborted");
                throw new IllegalStateException("to be done again");
            }
            taken = records.size();
        });
        KafkaMessageListenerContainer<String, String> listening = new KafkaMessageListenerContainer<>(new DefaultKafkaConsumerFactory<>(consuming), container);
        listening.setApplicationEventPublisher(event -> {
            if (event instanceof ConsumerStoppedEvent stopped && stopped.getReason() == ConsumerStoppedEvent.Reason.FENCED) {
                say("fenced");
                System.exit(0);
            }
        });
        listening.start();
        while (System.in.read() >= 0);
        listening.stop();
        producers.destroy();
        System.exit(0);
    }
}
