package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.GroupRebalanceConfig;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.storage.ClusterConfigState;

/**
 * Runs Connect's own assignors on histories of a group: a JSON object a line in, a JSON array a line out.
 *
 * In: {"max_delay_ms", "rounds": [{"protocol", "now_ms", "generation", "completed_generation", "leader", "members":
 * [[id, hex of its metadata]], "offset", "fresh_offset", "configured": {connector: number of tasks}}]}.
 * Out, for each round: {"assignments": {id: hex}, "delay_ms", "rebalance_at_ms", "owners": {"c" or "c-0": id}}.
 */
public class ConnectAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        out.flush();
    }

    private static ArrayNode run(JsonNode history) throws Exception {
        int maxDelay = history.get("max_delay_ms").asInt();
        SetTime time = new SetTime();
        Leader leader = new Leader(time, maxDelay);
        IncrementalCooperativeAssignor incremental =
            new IncrementalCooperativeAssignor(new LogContext(), time, maxDelay);
        EagerAssignor eager = new EagerAssignor(new LogContext());
        ArrayNode results = JSON.createArrayNode();
        for (JsonNode round : history.get("rounds")) {
            time.now = round.get("now_ms").asLong();
            leader.round = round;
            leader.snapshot = snapshot(round, round.get("offset").asLong());
            leader.told = null;
            List<JoinGroupResponseMember> members = new ArrayList<>();
            for (JsonNode member : round.get("members"))
                members.add(new JoinGroupResponseMember()
                    .setMemberId(member.get(0).asText())
                    .setMetadata(HexFormat.of().parseHex(member.get(1).asText())));
            ConnectProtocolCompatibility protocol =
                ConnectProtocolCompatibility.fromProtocol(round.get("protocol").asText());
            ConnectAssignor assignor = protocol == ConnectProtocolCompatibility.EAGER ? eager : incremental;
            Map<String, ByteBuffer> assignments =
                assignor.performAssignment(round.get("leader").asText(), protocol, members, leader);
            ObjectNode result = results.addObject();
            ObjectNode bytes = result.putObject("assignments");
            assignments.forEach((id, buffer) -> {
                byte[] array = new byte[buffer.remaining()];
                buffer.get(array);
                bytes.put(id, HexFormat.of().formatHex(array));
            });
            result.put("delay_ms", incremental.delay);
            result.put("rebalance_at_ms", incremental.scheduledRebalance);
            ObjectNode owners = result.putObject("owners");
            if (leader.told != null) {
                owners(leader.told, "connectorOwners").forEach((what, who) -> owners.put(what.toString(), who));
                owners(leader.told, "taskOwners").forEach((what, who) -> owners.put(what.toString(), who));
            }
        }
        return results;
    }

    @SuppressWarnings("unchecked")
    private static Map<Object, String> owners(WorkerCoordinator.LeaderState state, String name) throws Exception {
        Field field = WorkerCoordinator.LeaderState.class.getDeclaredField(name);
        field.setAccessible(true);
        return (Map<Object, String>) field.get(state);
    }

    private static ClusterConfigState snapshot(JsonNode round, long offset) {
        Map<String, Integer> tasks = new HashMap<>();
        Map<String, Map<String, String>> connectors = new HashMap<>();
        round.get("configured").properties().forEach(connector -> {
            tasks.put(connector.getKey(), connector.getValue().asInt());
            connectors.put(connector.getKey(), Map.of());
        });
        return new ClusterConfigState(offset, null, tasks, connectors, Map.of(), Map.of(), Map.of(), Map.of(),
            Map.of(), Set.of(), Set.of());
    }

    /** A worker that leads, without a network: it knows what the round says. */
    private static class Leader extends WorkerCoordinator {
        JsonNode round;
        ClusterConfigState snapshot;
        LeaderState told;

        Leader(Time time, int maxDelay) {
            super(new GroupRebalanceConfig(10_000, 60_000, 3_000, "connect", Optional.empty(), null, 100, 1_000),
                new LogContext(), null, new Metrics(), "connect", time, "", null, null,
                ConnectProtocolCompatibility.SESSIONED, maxDelay);
        }

        @Override
        public ClusterConfigState configSnapshot() {
            return snapshot;
        }

        @Override
        public void configSnapshot(ClusterConfigState update) {
            snapshot = update;
        }

        @Override
        public ClusterConfigState configFreshSnapshot() {
            return ConnectAssignors.snapshot(round, round.get("fresh_offset").asLong());
        }

        @Override
        public int generationId() {
            return round.get("generation").asInt();
        }

        @Override
        public int lastCompletedGenerationId() {
            return round.get("completed_generation").asInt();
        }

        @Override
        public String memberId() {
            return "";
        }

        @Override
        public void leaderState(LeaderState update) {
            told = update;
        }
    }

    /** A clock that stands where it was set. */
    private static class SetTime implements Time {
        long now;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            now += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
