import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Kafka's own assignor of the tasks of streams groups. Reads cases, one line of JSON each:
 * {"members": [[id, process, {subtopology: [number..]}, the same of standby tasks, {subtopology: {number: offset}}]..],
 * "subtopologies": {id: [tasks, stateful]}, "replicas": N}.
 * Answers with a line each: for each member, in the order of the case, its active and its standby tasks.
 */
public class Tasks {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine())
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
    }

    private static Object answer(JsonNode given) {
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        given.get("members").forEach(m -> members.put(m.get(0).asText(), new MemberMetadataAndStateImpl(
            Optional.empty(), Optional.empty(), m.get(1).asText(), Map.of(), tasks(m.get(2)), tasks(m.get(3)), Map.of(),
            offsets(m.get(4)), Map.of())));
        TreeMap<String, JsonNode> subtopologies = new TreeMap<>();
        given.get("subtopologies").fields().forEachRemaining(e -> subtopologies.put(e.getKey(), e.getValue()));
        TopologyDescriber topology = new TopologyDescriber() {
            @Override public List<String> subtopologies() { return List.copyOf(subtopologies.keySet()); }
            @Override public int maxNumInputPartitions(String id) { return subtopologies.get(id).get(0).asInt(); }
            @Override public boolean isStateful(String id) { return subtopologies.get(id).get(1).asBoolean(); }
        };
        AssignmentConfigsImpl configs = new AssignmentConfigsImpl(given.get("replicas").asInt(), List.of());
        GroupAssignment got = new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), topology);
        List<Object> answer = new ArrayList<>();
        given.get("members").forEach(m -> {
            MemberAssignment its = got.members().get(m.get(0).asText());
            answer.add(List.of(sorted(its.activeTasks()), sorted(its.standbyTasks())));
        });
        return answer;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode given) {
        Map<String, Set<Integer>> made = new HashMap<>();
        given.fields().forEachRemaining(e -> {
            Set<Integer> numbers = new HashSet<>();
            e.getValue().forEach(number -> numbers.add(number.asInt()));
            made.put(e.getKey(), numbers);
        });
        return made;
    }

    private static Map<String, Map<Integer, Long>> offsets(JsonNode given) {
        Map<String, Map<Integer, Long>> made = new HashMap<>();
        given.fields().forEachRemaining(e -> {
            Map<Integer, Long> its = new HashMap<>();
            e.getValue().fields().forEachRemaining(row -> its.put(Integer.parseInt(row.getKey()), row.getValue().asLong()));
            made.put(e.getKey(), its);
        });
        return made;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> made = new TreeMap<>();
        tasks.forEach((id, numbers) -> made.put(id, new TreeSet<>(numbers)));
        return made;
    }
}
