import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Kafka's own assignors. Reads cases, one line of JSON each:
 * {"strategy": name, "members": [[id, [topic..], {topic: [partition..]}, generation, instance, rack, user data in hex]..],
 * "topics": {topic: [partitions, [[rack..]..] or null, id in hex or null]}}.
 * "simple" may have a field "assignable": {topic: [partition..]}, the partitions whose state is initialized.
 * Answers with a line each: for each member, in the order of the case, [[topic, [partition..]]..]; or a sentence when Kafka throws.
 * With an argument N it answers with nanoseconds of the thread's CPU time instead: those of the first of N runs, and the median of the last half.
 */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode given = JSON.readTree(line);
            out.println(JSON.writeValueAsString(args.length > 0 ? time(given, Integer.parseInt(args[0])) : answer(given)));
        }
    }

    private static Object answer(JsonNode given) {
        try {
            return prepare(given).get().get();
        } catch (RuntimeException e) {
            return e.toString();
        }
    }

    private static Object time(JsonNode given, int runs) {
        long[] took = new long[runs];
        for (int i = 0; i < runs; i++) {
            Supplier<Supplier<Object>> run = prepare(given);
            long start = CLOCK.getCurrentThreadCpuTime();
            run.get();
            took[i] = CLOCK.getCurrentThreadCpuTime() - start;
        }
        long[] last = Arrays.copyOfRange(took, runs / 2, runs);
        Arrays.sort(last);
        return List.of(took[0], last[last.length / 2]);
    }

    /** A call that assigns and gives another one, which writes the answer. */
    private static Supplier<Supplier<Object>> prepare(JsonNode given) {
        String strategy = given.get("strategy").asText();
        switch (strategy) {
            case "uniform":
                return server(new UniformAssignor(), given);
            case "server-range":
                return server(new org.apache.kafka.coordinator.group.assignor.RangeAssignor(), given);
            case "simple":
                return server(new SimpleAssignor(), given);
            default:
                return client(strategy, given);
        }
    }

    private static Supplier<Supplier<Object>> client(String strategy, JsonNode given) {
        ConsumerPartitionAssignor assignor = switch (strategy) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(strategy);
        };
        Cluster cluster = cluster(given.get("topics"));
        Map<String, Subscription> subscriptions = new HashMap<>();
        given.get("members").forEach(m -> subscriptions.put(m.get(0).asText(), subscription(m)));
        return () -> {
            Map<String, ConsumerPartitionAssignor.Assignment> got =
                assignor.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
            return () -> {
                List<Object> answer = new ArrayList<>();
                given.get("members").forEach(m -> answer.add(byTopic(got.get(m.get(0).asText()).partitions())));
                return answer;
            };
        };
    }

    private static Subscription subscription(JsonNode m) {
        List<TopicPartition> owned = new ArrayList<>();
        m.get(2).fields().forEachRemaining(e -> e.getValue().forEach(p -> owned.add(new TopicPartition(e.getKey(), p.asInt()))));
        ByteBuffer userData = m.get(6).isNull() ? null : ByteBuffer.wrap(HexFormat.of().parseHex(m.get(6).asText()));
        Subscription subscription = new Subscription(strings(m.get(1)), userData, owned, m.get(3).asInt(), text(m.get(5)).filter(r -> !r.isEmpty()));
        subscription.setGroupInstanceId(text(m.get(4)));
        return subscription;
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new LinkedHashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int p = 0; p < topic.getValue().get(0).asInt(); p++) {
                List<Node> replicas = new ArrayList<>();
                if (!topic.getValue().get(1).isNull())
                    for (String rack : strings(topic.getValue().get(1).get(p)))
                        replicas.add(nodes.computeIfAbsent(rack, r -> new Node(nodes.size(), "host", 9092, r)));
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), p, Node.noNode(), all, all));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    /** As ConsumerProtocol.serializeAssignment groups them. */
    private static List<Object> byTopic(List<TopicPartition> partitions) {
        Map<String, List<Integer>> grouped = new LinkedHashMap<>();
        partitions.forEach(tp -> grouped.computeIfAbsent(tp.topic(), t -> new ArrayList<>()).add(tp.partition()));
        return pairs(grouped);
    }

    private static Supplier<Supplier<Object>> server(PartitionAssignor assignor, JsonNode given) {
        boolean isSorted = given.get("strategy").asText().equals("simple");
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        Map<Uuid, Integer> sizes = new HashMap<>();
        given.get("topics").fields().forEachRemaining(topic -> {
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(topic.getValue().get(2).asText()));
            Uuid id = new Uuid(bytes.getLong(), bytes.getLong());
            ids.put(topic.getKey(), id);
            names.put(id, topic.getKey());
            sizes.put(id, topic.getValue().get(0).asInt());
        });
        TopicIds.TopicResolver resolver = new TopicIds.TopicResolver() {
            @Override public CoordinatorMetadataImage image() { return null; }
            @Override public String name(Uuid id) { return names.get(id); }
            @Override public Uuid id(String name) { return ids.get(name); }
            @Override public void clear() { }
        };
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        Set<Set<String>> subscriptions = new HashSet<>();
        given.get("members").forEach(m -> {
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            m.get(2).fields().forEachRemaining(e -> {
                if (isSorted && !ids.containsKey(e.getKey()))
                    return;
                // a target keeps the ids of deleted topics
                Uuid id = ids.getOrDefault(e.getKey(), new Uuid(1, new BigInteger(e.getKey().getBytes(UTF_8)).longValue()));
                List<Integer> partitions = new ArrayList<>();
                e.getValue().forEach(p -> partitions.add(p.asInt()));
                owned.put(id, new HashSet<>(partitions));
                partitions.forEach(p -> inverted.computeIfAbsent(id, t -> new HashMap<>()).put(p, m.get(0).asText()));
            });
            Set<String> topics = new HashSet<>(strings(m.get(1)));
            subscriptions.add(topics);
            members.put(m.get(0).asText(), new MemberSubscriptionAndAssignmentImpl(
                text(m.get(5)), text(m.get(4)), new TopicIds(topics, resolver), new Assignment(owned)));
        });
        // as ConsumerGroup.subscriptionType decides it for members without regular expressions
        SubscriptionType type = subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        Optional<Map<Uuid, Set<Integer>>> assignable = Optional.ofNullable(given.get("assignable")).map(some -> {
            Map<Uuid, Set<Integer>> allowed = new HashMap<>();
            some.fields().forEachRemaining(e -> {
                Set<Integer> partitions = new HashSet<>();
                e.getValue().forEach(p -> partitions.add(p.asInt()));
                allowed.put(ids.get(e.getKey()), partitions);
            });
            return allowed;
        });
        GroupSpec spec = new GroupSpecImpl(Collections.unmodifiableMap(members), type, inverted, assignable);
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override public int numPartitions(Uuid id) { return sizes.getOrDefault(id, -1); }
            @Override public Set<String> racksForPartition(Uuid id, int partition) { return Set.of(); }
        };
        return () -> {
            var got = assignor.assign(spec, describer).members();
            return () -> {
                List<Object> answer = new ArrayList<>();
                given.get("members").forEach(m -> {
                    // a record has the order of these tables
                    Map<String, List<Integer>> mine = isSorted ? new TreeMap<>() : new LinkedHashMap<>();
                    if (got.containsKey(m.get(0).asText()))
                        got.get(m.get(0).asText()).partitions().forEach((id, p) -> mine.put(names.get(id), new ArrayList<>(isSorted ? new TreeSet<>(p) : p)));
                    answer.add(pairs(mine));
                });
                return answer;
            };
        };
    }

    private static List<Object> pairs(Map<String, List<Integer>> partitions) {
        List<Object> pairs = new ArrayList<>();
        partitions.forEach((topic, numbers) -> pairs.add(List.of(topic, numbers)));
        return pairs;
    }

    private static List<String> strings(JsonNode array) {
        List<String> strings = new ArrayList<>();
        array.forEach(s -> strings.add(s.asText()));
        return strings;
    }

    private static Optional<String> text(JsonNode node) {
        return node.isNull() ? Optional.empty() : Optional.of(node.asText());
    }
}
