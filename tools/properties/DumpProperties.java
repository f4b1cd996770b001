import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.DynamicConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints, as JSON, the names, types, defaults and ranges of every property Kafka's broker knows; distil.py makes the table of it. */
public class DumpProperties {
    static Object reflect(Object of, String name) throws Exception {
        for (Class<?> c = of.getClass(); c != null; c = c.getSuperclass()) {
            try {
                Field f = c.getDeclaredField(name);
                f.setAccessible(true);
                return f.get(of);
            } catch (NoSuchFieldException e) {
                // look in the class above
            }
        }
        throw new NoSuchFieldException(of.getClass() + "." + name);
    }

    static Map<String, Object> validator(ConfigDef.Validator v) throws Exception {
        if (v == null) return null;
        Map<String, Object> m = new TreeMap<>();
        m.put("class", v.getClass().getSimpleName());
        m.put("text", v.getClass().isSynthetic() || v.toString().contains("@") ? "" : v.toString());
        if (v instanceof ConfigDef.Range) {
            m.put("min", String.valueOf(reflect(v, "min")));
            m.put("max", String.valueOf(reflect(v, "max")));
        } else if (v instanceof ConfigDef.ValidString) {
            m.put("values", reflect(v, "validStrings"));
        } else if (v instanceof ConfigDef.CaseInsensitiveValidString) {
            m.put("values", new TreeSet<>((Set<?>) reflect(v, "validStrings")));
        } else if (v instanceof ConfigDef.ValidList) {
            m.put("values", reflect(reflect(v, "validString"), "validStrings"));
            m.put("emptyAllowed", reflect(v, "isEmptyAllowed"));
            m.put("nullAllowed", reflect(v, "isNullAllowed"));
        } else if (v instanceof ConfigDef.CompositeValidator) {
            List<Object> all = new ArrayList<>();
            for (Object one : (List<?>) reflect(v, "validators")) all.add(validator((ConfigDef.Validator) one));
            m.put("all", all);
        }
        return m;
    }

    static List<Object> dump(Map<String, ConfigKey> keys) throws Exception {
        List<Object> rows = new ArrayList<>();
        for (ConfigKey key : new TreeMap<>(keys).values()) {
            Map<String, Object> row = new TreeMap<>();
            row.put("name", key.name);
            row.put("type", key.type.toString());
            row.put("hasDefault", key.hasDefault());
            row.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            row.put("importance", key.importance.toString());
            row.put("internal", key.internalConfig);
            row.put("validator", validator(key.validator));
            row.put("documentation", key.documentation);
            rows.add(row);
        }
        return rows;
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> out = new TreeMap<>();
        Properties version = new Properties();
        try (java.io.InputStream file = ConfigDef.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            version.load(file);
        }
        out.put("version", version.getProperty("version"));
        out.put("broker", dump(AbstractKafkaConfig.CONFIG_DEF.configKeys()));
        out.put("topic", dump(LogConfig.configKeys()));
        out.put("group", dump(GroupConfig.CONFIG_DEF.configKeys()));
        out.put("clientMetrics", dump(ClientMetricsConfigs.configDef().configKeys()));
        out.put("updateModes", new TreeMap<>(DynamicBrokerConfig.dynamicConfigUpdateModes()));
        out.put("dynamic", new TreeSet<>(DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS));
        out.put("dynamicSecurity", new TreeSet<>(DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS));
        Map<String, Object> synonyms = new TreeMap<>();
        for (Map.Entry<String, List<ConfigSynonym>> entry : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.entrySet()) {
            List<Object> rows = new ArrayList<>();
            for (ConfigSynonym synonym : entry.getValue())
                rows.add(List.of(synonym.name(), synonym.converter().apply("7"), synonym.converter().apply("-1")));
            synonyms.put(entry.getKey(), rows);
        }
        out.put("topicSynonyms", synonyms);
        Map<String, Object> group = new TreeMap<>();
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach((k, v) -> group.put(k, v.orElse(null)));
        out.put("groupSynonyms", group);
        Map<String, Object> broker = new TreeMap<>();
        for (String name : AbstractKafkaConfig.CONFIG_DEF.configKeys().keySet()) {
            List<String> all = DynamicBrokerConfig.brokerConfigSynonyms(name, true);
            if (!all.equals(List.of(name))) broker.put(name, all);
        }
        out.put("brokerSynonyms", broker);
        out.put("outside", List.of(
            org.apache.kafka.metadata.authorizer.StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG,
            org.apache.kafka.metadata.authorizer.StandardAuthorizer.SUPER_USERS_CONFIG,
            org.apache.kafka.common.metrics.JmxReporter.EXCLUDE_CONFIG,
            org.apache.kafka.common.metrics.JmxReporter.INCLUDE_CONFIG));
        out.put("brokerDynamicOnly", dump(brokerDynamic().configKeys()));
        System.out.println(new ObjectMapper().writerWithDefaultPrettyPrinter().writeValueAsString(out));
    }

    static ConfigDef brokerDynamic() throws Exception {
        Class<?> c = Class.forName("org.apache.kafka.server.config.DynamicConfig$Broker");
        for (Field f : c.getDeclaredFields())
            if (f.getType() == ConfigDef.class) {
                f.setAccessible(true);
                return (ConfigDef) f.get(null);
            }
        throw new IllegalStateException("DynamicConfig.Broker has no ConfigDef");
    }
}
