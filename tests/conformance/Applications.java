import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Locale;
import java.util.Properties;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Applications of Kafka Streams. Arguments: the application, bootstrap server, state directory, a process id ("" is
 * any), then settings as "name=value".
 *
 * word-count: topic "lines" to topic "counts", through a repartition topic and a store in RocksDB with its changelog.
 * The line "poison" fails.
 * join: topic "orders" (order id to customer) by customer with the table "customers", to topic "joined" (order id, name).
 * windows: how often each key of topic "events" is in each second, to topic "windowed" (key@second).
 *
 * Prints "state NAME" when its state changes, and "tasks 0_0 1_1 ..." and "standbys ..." when its active or its other
 * tasks have changed. The command "hosts STORE" prints "hosts HOST:PORT=partitions/standby partitions ...". The
 * application ends when its input ends.
 */
public class Applications {
    public static void main(String[] arguments) throws Exception {
        String application = arguments[0];
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        for (String setting : Arrays.asList(arguments).subList(4, arguments.length))
            settings.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        if (!arguments[3].isEmpty()) {
            Path directory = Path.of(arguments[2], application);
            Files.createDirectories(directory);
            Files.writeString(
                directory.resolve("kafka-streams-process-metadata"), "{\"processId\":\"" + arguments[3] + "\"}");
        }
        StreamsBuilder builder = new StreamsBuilder();
        switch (application) {
            case "word-count" -> wordCount(builder);
            case "join" -> join(builder);
            case "windows" -> windows(builder);
            default -> throw new IllegalArgumentException(application);
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> say("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            boolean isPoison = String.valueOf(error.getCause()).contains("poison");
            say((isPoison ? "poison " : "failed ") + error);
            return isPoison ? StreamThreadExceptionResponse.SHUTDOWN_APPLICATION
                : StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        Thread watch = new Thread(() -> watch(streams));
        watch.setDaemon(true);
        watch.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine())
            hosts(streams, line.substring("hosts ".length()));
        streams.close(Duration.ofSeconds(30));
    }

    private static void wordCount(StreamsBuilder builder) {
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(Applications::words)
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts-store"))
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static Collection<String> words(String line) {
        if (line.equals("poison"))
            throw new IllegalStateException("poison");
        return Arrays.asList(line.toLowerCase(Locale.ROOT).split(" "));
    }

    private static void join(StreamsBuilder builder) {
        var names = builder.table("customers", Consumed.with(Serdes.String(), Serdes.String()),
            Materialized.as("names"));
        builder.stream("orders", Consumed.with(Serdes.String(), Serdes.String()))
            .map((order, customer) -> org.apache.kafka.streams.KeyValue.pair(customer, order))
            .leftJoin(names, (order, name) -> order + ":" + name,
                Joined.with(Serdes.String(), Serdes.String(), Serdes.String(), "by-customer"))
            .to("joined", Produced.with(Serdes.String(), Serdes.String()));
    }

    private static void windows(StreamsBuilder builder) {
        builder.stream("events", Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(1)))
            .count(Materialized.as("windows-store"))
            .toStream((window, count) -> window.key() + "@" + window.window().start() / 1000)
            .to("windowed", Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static void hosts(KafkaStreams streams, String store) {
        TreeSet<String> hosts = new TreeSet<>();
        streams.streamsMetadataForStore(store).forEach(one -> {
            TreeSet<Integer> active = new TreeSet<>(), standby = new TreeSet<>();
            one.topicPartitions().forEach(partition -> active.add(partition.partition()));
            one.standbyTopicPartitions().forEach(partition -> standby.add(partition.partition()));
            hosts.add(one.host() + ":" + one.port() + "=" + joined(active) + "/" + joined(standby));
        });
        say("hosts " + String.join(" ", hosts));
    }

    private static String joined(Collection<Integer> numbers) {
        return String.join(",", numbers.stream().map(String::valueOf).toList());
    }

    private static void watch(KafkaStreams streams) {
        String tasks = "", standbys = "";
        while (true) {
            String its = of(streams, ThreadMetadata::activeTasks), others = of(streams, ThreadMetadata::standbyTasks);
            if (!its.equals(tasks))
                say("tasks " + its);
            if (!others.equals(standbys))
                say("standbys " + others);
            tasks = its;
            standbys = others;
            try {
                Thread.sleep(50);
            } catch (InterruptedException error) {
                return;
            }
        }
    }

    private static String of(KafkaStreams streams, Function<ThreadMetadata, Collection<TaskMetadata>> which) {
        TreeSet<String> found = new TreeSet<>();
        streams.metadataForLocalThreads().forEach(
            thread -> which.apply(thread).forEach(task -> found.add(task.taskId().toString())));
        return String.join(" ", found);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
