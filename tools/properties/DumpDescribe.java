import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;

/** Prints what a running Kafka answers to DescribeConfigs: arguments are its HOST:PORT, then TYPE:NAME of each resource. */
public class DumpDescribe {
    static final Map<ConfigEntry.ConfigSource, Integer> IDS = Map.of(
        ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, 1, ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG, 2,
        ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, 3, ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG, 4,
        ConfigEntry.ConfigSource.DEFAULT_CONFIG, 5, ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG, 8);

    public static void main(String[] args) throws Exception {
        Map<String, Object> out = new TreeMap<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            admin.createTopics(List.of(
                new NewTopic("plain", 1, (short) 1),
                new NewTopic("own", 1, (short) 1).configs(Map.of("retention.ms", "-1", "cleanup.policy", "compact,delete", "segment.bytes", "2097152")))).all().get();
            Map<ConfigResource, Collection<AlterConfigOp>> group = Map.of(new ConfigResource(ConfigResource.Type.GROUP, "g"),
                List.of(new AlterConfigOp(new ConfigEntry("consumer.session.timeout.ms", "50000"), AlterConfigOp.OpType.SET)));
            admin.incrementalAlterConfigs(group).all().get();
            Thread.sleep(1000);
            for (String arg : Arrays.asList(args).subList(1, args.length)) {
                String[] parts = arg.split(":");
                ConfigResource resource = new ConfigResource(ConfigResource.Type.valueOf(parts[0]), parts[1]);
                Config config = admin.describeConfigs(List.of(resource), new DescribeConfigsOptions().includeSynonyms(true)).all().get().get(resource);
                List<Object> rows = new ArrayList<>();
                for (ConfigEntry entry : config.entries()) {
                    List<Object> synonyms = new ArrayList<>();
                    for (ConfigEntry.ConfigSynonym s : entry.synonyms()) synonyms.add(Arrays.asList(s.name(), s.value(), IDS.get(s.source())));
                    rows.add(Arrays.asList(entry.name(), entry.value(), entry.isReadOnly(), IDS.get(entry.source()), entry.isSensitive(), entry.type().name(), synonyms));
                }
                out.put(arg, rows);
            }
        }
        System.out.println(new ObjectMapper().writeValueAsString(out));
    }
}
