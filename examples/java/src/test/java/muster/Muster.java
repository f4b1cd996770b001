package muster;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A server of Muster for tests: it is started as a process, and told over HTTP what to do to groups, requests and time.
 *
 * <p>Copy this file and {@link MusterExtension} into your tests. They need Jackson, and the {@code muster} command
 * (the README says how to install it), on PATH or named by the variable MUSTER.
 */
public final class Muster implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final HttpClient http = HttpClient.newHttpClient();
    private final Map<String, Group> groups = new LinkedHashMap<>();
    private final Process process;
    private final Path log;
    private final String control;
    private final String bootstrapServers;

    /** What the server refused, or waited for in vain: then the message tells what the group did. */
    public static final class Refused extends RuntimeException {
        /** That of the API: "timeout", "not-found", … */
        public final String code;

        Refused(JsonNode error) {
            super(error.path("message").asText());
            code = error.path("code").asText();
        }
    }

    /** How a server is to be: {@code new Options().topic("orders", 4).start()}. */
    public static final class Options {
        private final List<String> words = new ArrayList<>(List.of("serve", "--in-memory", "--listen", "127.0.0.1:0"));

        public Options() {
            property("group.initial.rebalance.delay.ms", 0);
        }

        /** One of Kafka's properties by its own name. */
        public Options property(String name, Object value) {
            words.addAll(List.of("--override", name + "=" + value));
            return this;
        }

        public Options topic(String name, int partitions) {
            words.addAll(List.of("--topic", name + ":" + partitions));
            return this;
        }

        public Options nodes(int nodes) {
            words.addAll(List.of("--nodes", String.valueOf(nodes)));
            return this;
        }

        /** Time can be frozen and moved. */
        public Options virtualTime() {
            words.add("--virtual-time");
            return this;
        }

        public Muster start() {
            try {
                return new Muster(words);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }

    private Muster(List<String> words) throws IOException {
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            control = "127.0.0.1:" + free.getLocalPort();
        }
        List<String> command = new ArrayList<>(List.of(System.getenv().getOrDefault("MUSTER", "muster")));
        command.addAll(words);
        command.addAll(List.of("--control", control));
        log = Files.createTempFile("muster", ".log");
        process = new ProcessBuilder(command).redirectError(log.toFile()).start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line;
        do {
            line = lines.readLine();
            if (line == null) {
                throw new IOException("muster did not start:\n" + Files.readString(log));
            }
        } while (!line.startsWith("muster ready "));
        bootstrapServers = call("GET", "/server", null).get("bootstrap_servers").asText();
    }

    public String bootstrapServers() {
        return bootstrapServers;
    }

    @Override
    public void close() {
        process.destroy();
        try {
            process.waitFor(10, TimeUnit.SECONDS);
            Files.deleteIfExists(log);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Ask for a verb of the control's API (GET /v1/openapi.json tells all of them). */
    public JsonNode call(String method, String path, Map<String, ?> body) {
        try {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://" + control + "/v1" + path));
            if (body == null) {
                request.method(method, BodyPublishers.noBody());
            } else {
                request.header("Content-Type", "application/json");
                request.method(method, BodyPublishers.ofByteArray(JSON.writeValueAsBytes(body)));
            }
            var response = http.send(request.build(), BodyHandlers.ofByteArray());
            JsonNode answer = JSON.readTree(response.body());
            if (response.statusCode() != 200) {
                throw new Refused(answer.path("error"));
            }
            return answer;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    private static String part(String name) {
        return URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
    }

    public void createTopic(String name, int partitions) {
        call("POST", "/topics", Map.of("name", name, "partitions", partitions));
    }

    public void produce(String topic, String... values) {
        List<Map<String, String>> records = Arrays.stream(values).map(value -> Map.of("value", value)).toList();
        call("POST", "/topics/" + part(topic) + "/produce", Map.of("records", records));
    }

    /** The verbs on a group; it need not be there yet. */
    public Group group(String id) {
        return groups.computeIfAbsent(id, Group::new);
    }

    /** The groups that the test has asked for. */
    Iterable<Group> groups() {
        return groups.values();
    }

    public final class Group {
        final String id;
        private final String path;

        private Group(String id) {
            this.id = id;
            this.path = "/groups/" + part(id);
        }

        public JsonNode describe() {
            return call("GET", path, null);
        }

        public JsonNode offsets() {
            return call("GET", path + "/offsets", null);
        }

        /** What happened in the group, a line each. */
        public List<String> timeline() {
            List<String> lines = new ArrayList<>();
            call("GET", path + "/history", null).get("timeline").forEach(line -> lines.add(line.asText()));
            return lines;
        }

        /** Wait until it is stable with so many members, and with every partition of that topic assigned. */
        public JsonNode waitStable(int members, String partitions) {
            return waitStable(members, partitions, Duration.ofSeconds(30));
        }

        /** {@code members} and {@code partitions} may be null: some, and whichever. */
        public JsonNode waitStable(Integer members, String partitions, Duration timeout) {
            Map<String, Object> body = new HashMap<>();
            body.put("members", members);
            body.put("partitions", partitions);
            body.put("timeout_ms", timeout.toMillis());
            return call("POST", path + "/wait-stable", body);
        }

        /** Wait until it has committed the ends of a topic. */
        public JsonNode waitConsumed(String topic) {
            return call("POST", path + "/wait-consumed", Map.of("topic", topic));
        }

        public void rebalance() {
            call("POST", path + "/rebalance", null);
        }

        /** Let the session of a member time out now. */
        public void expire(String clientId) {
            call("POST", path + "/expire", Map.of("client_id", clientId));
        }

        public void remove(String clientId) {
            call("POST", path + "/remove", Map.of("client_id", clientId));
        }

        /** {@code to} is "earliest", "latest" or an offset. */
        public void resetOffsets(String topic, Object to) {
            call("POST", path + "/reset-offsets", Map.of("topic", topic, "to", to));
        }

        /** No rebalance ends until {@link #release}. */
        public void holdJoins() {
            call("POST", path + "/hold-joins", null);
        }

        public void release() {
            call("POST", path + "/release", null);
        }
    }

    /** Put a rule of faults in force: which requests, what happens, at which of them. Returns its id. */
    public String addFault(Map<String, ?> match, Map<String, ?> then, Map<String, ?> when) {
        return call("POST", "/faults", Map.of("match", match, "then", then, "when", when)).get("id").asText();
    }

    public void releaseFault(String id) {
        call("POST", "/faults/" + part(id) + "/release", null);
    }

    public void clearFaults() {
        call("DELETE", "/faults", null);
    }

    /** Which rule hit which request. */
    public JsonNode faultLog() {
        return call("GET", "/fault-log", null).get("hits");
    }

    public JsonNode scenario(String name, Map<String, ?> parameters) {
        return call("POST", "/scenarios/" + part(name), parameters);
    }

    /** The server's time stands still; it needs {@link Options#virtualTime}. */
    public void freeze() {
        call("POST", "/time/freeze", null);
    }

    public void advance(Duration by) {
        call("POST", "/time/advance", Map.of("ms", by.toMillis()));
    }

    public void thaw() {
        call("POST", "/time/thaw", null);
    }

    /** Tell one of several brokers to "stop", "kill", "pause", "resume" or "return". */
    public JsonNode node(int id, String verb) {
        return call("POST", "/nodes/" + id + "/" + verb, null).get("nodes");
    }
}
