import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's StandardAuthorizer. Reads cases, one line of JSON each:
 * {"super": text, "open": boolean, "acls": [[type, name, pattern, principal, host, operation, permission]..],
 * "asked": [[principal type, principal name, address, operation, type, name or null]..]}: a null name asks
 * whether there is any resource of the type. Answers with a line each: for each question 1 (allowed), 0, or x when Kafka throws.
 */
public class Decisions {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(json.readTree(line)));
        }
    }

    private static String answer(JsonNode given) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        Map<String, Object> configs = new HashMap<>();
        configs.put("super.users", given.get("super").asText());
        configs.put("allow.everyone.if.no.acl.found", given.get("open").asText());
        configs.put("node.id", "1");
        authorizer.configure(configs);
        Metrics metrics = new Metrics();
        authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
        authorizer.completeInitialLoad();
        for (JsonNode acl : given.get("acls")) {
            authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                ResourceType.fromCode((byte) acl.get(0).asInt()), acl.get(1).asText(),
                PatternType.fromCode((byte) acl.get(2).asInt()), acl.get(3).asText(), acl.get(4).asText(),
                AclOperation.fromCode((byte) acl.get(5).asInt()), AclPermissionType.fromCode((byte) acl.get(6).asInt())));
        }
        StringBuilder answers = new StringBuilder();
        for (JsonNode asked : given.get("asked")) {
            Client client = new Client(new KafkaPrincipal(asked.get(0).asText(), asked.get(1).asText()),
                InetAddress.getByName(asked.get(2).asText()));
            AclOperation operation = AclOperation.fromCode((byte) asked.get(3).asInt());
            ResourceType type = ResourceType.fromCode((byte) asked.get(4).asInt());
            try {
                AuthorizationResult result = asked.get(5).isNull()
                    ? authorizer.authorizeByResourceType(client, operation, type)
                    : authorizer.authorize(client, List.of(new Action(operation,
                        new ResourcePattern(type, asked.get(5).asText(), PatternType.LITERAL), 1, false, false))).get(0);
                answers.append(result == AuthorizationResult.ALLOWED ? '1' : '0');
            } catch (RuntimeException e) {
                answers.append('x');
            }
        }
        metrics.close();
        return answers.toString();
    }

    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
