import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Asks Kafka's own parser what it makes of odd values of many properties; the answers are the oracle of our tests. */
public class ProbeValues {
    static final String[] VALUES = {
        "", " ", "0", "1", "-1", "-2", "+5", " 12 ", "07", "1_000", "1.5", "1e3", ".5", "0x10", "NaN", "2147483647", "2147483648", "-2147483649",
        "32767", "32768", "9223372036854775807", "9223372036854775808", "true", "TRUE", " False ", "yes", "abc", "a,b", " a , b ", "a,,b", "a,a", ",",
        "delete", "compact,delete", "delete,delete", "Delete", "gzip", "none", "producer", "CreateTime", "LogAppendTime", "classic", "classic,share",
        "upgrade", "UPGRADE", "*", "0:1,1:2", "0-1", "latest", "by_duration:PT1H", "by_duration:x", "required", "PLAINTEXT", "10", "23",
    };
    static final Set<String> BROKER = new TreeSet<>(List.of(
        "num.partitions", "log.retention.ms", "log.cleaner.min.cleanable.ratio", "auto.create.topics.enable", "offsets.topic.replication.factor", "listeners",
        "advertised.listeners", "group.consumer.assignors", "group.coordinator.rebalance.protocols", "group.consumer.migration.policy", "broker.rack",
        "compression.gzip.level", "compression.zstd.level", "log.cleanup.policy", "log.dirs", "ssl.client.auth", "super.users", "process.roles", "node.id",
        "group.share.delivery.count.limit", "log.segment.bytes", "metric.reporters", "ssl.key.password", "security.inter.broker.protocol",
        "log.cleaner.io.max.bytes.per.second", "controller.quorum.voters", "remote.log.storage.manager.class.name", "cordoned.log.dirs", "authorizer.class.name",
        "max.connections.per.ip.overrides", "sasl.login.refresh.buffer.seconds", "remote.log.manager.task.retry.jitter"));

    static List<Object> ask(ConfigDef def, String name) {
        List<Object> answers = new ArrayList<>();
        ConfigDef one = new ConfigDef().define(def.configKeys().get(name));
        for (String value : VALUES) {
            try {
                Object parsed = one.parse(Map.of(name, value)).get(name);
                if (parsed instanceof Password) parsed = ((Password) parsed).value();
                answers.add(List.of(value, "ok", parsed instanceof Double ? parsed.toString() : parsed));
            } catch (Exception e) {
                answers.add(List.of(value, "no", String.valueOf(e.getMessage())));
            }
        }
        return answers;
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> out = new TreeMap<>();
        Map<String, Object> broker = new TreeMap<>(), topic = new TreeMap<>(), group = new TreeMap<>();
        for (String name : BROKER)
            if (AbstractKafkaConfig.CONFIG_DEF.configKeys().containsKey(name)) broker.put(name, ask(AbstractKafkaConfig.CONFIG_DEF, name));
        ConfigDef topics = LogConfig.configDefCopy();
        for (String name : LogConfig.configNames()) topic.put(name, ask(topics, name));
        for (String name : GroupConfig.CONFIG_DEF.names()) group.put(name, ask(GroupConfig.CONFIG_DEF, name));
        out.put("broker", broker);
        out.put("topic", topic);
        out.put("group", group);
        System.out.println(new ObjectMapper().writeValueAsString(out));
    }
}
