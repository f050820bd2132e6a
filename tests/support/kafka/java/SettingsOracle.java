import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;

/**
 * The settings of share groups as Kafka's own classes declare, check and apply them.
 *
 * in:  {"list": true}
 * out: {"settings": [{"name": s, "scope": "broker" | "group", "type": s, "default": s | null, "range": s | null,
 *                     "internal": b, "synonym": the broker's name | null}, ...]}
 *
 * in:  {"validate": {name: text, ...}, "broker": {name: text, ...}}
 * out: {"refused": text | null}    whether settings of a group may be set; the broker's alone with none
 *
 * in:  {"stored": {name: text, ...}, "broker": {name: text, ...}}
 * out: {"effective": {name: text, ...}}    what a group that has these settings stored works with
 *
 * in:  {"client": {name: text, ...}}
 * out: {"refused": text | null}    whether a share consumer may have these properties
 */
public final class SettingsOracle {
    private static final ConfigDef BROKER = merged(
        GroupCoordinatorConfig.CONFIG_DEF, ShareGroupConfig.CONFIG_DEF, ShareCoordinatorConfig.CONFIG_DEF);

    private static final Set<String> OF_GROUPS = Set.of("share.", "errors.deadletterqueue.");

    /** What a broker with these settings has. */
    private record Broker(
        AbstractConfig all, GroupCoordinatorConfig group, ShareGroupConfig share, ShareCoordinatorConfig coordinator
    ) {
        static Broker of(JsonNode settings) {
            var all = new AbstractConfig(BROKER, texts(settings), false);
            return new Broker(
                all, new GroupCoordinatorConfig(all), new ShareGroupConfig(all), new ShareCoordinatorConfig(all));
        }
    }

    public static void main(String[] args) throws Exception {
        Lines.serve(question -> question.has("list") ? list()
            : question.has("validate") ? validate(question)
            : question.has("client") ? client(question) : evaluate(question));
    }

    private static ObjectNode list() {
        ObjectNode answer = Lines.JSON.createObjectNode();
        ArrayNode settings = answer.putArray("settings");
        show(settings, "broker", BROKER, Set.of("group.share.", "share.", "errors.deadletterqueue."));
        show(settings, "group", GroupConfig.CONFIG_DEF, OF_GROUPS);
        return answer;
    }

    private static void show(ArrayNode settings, String scope, ConfigDef definitions, Set<String> prefixes) {
        new TreeMap<>(definitions.configKeys()).forEach((name, key) -> {
            if (prefixes.stream().anyMatch(name::startsWith)) {
                settings.addObject()
                    .put("name", name)
                    .put("scope", scope)
                    .put("type", key.type.toString())
                    .put("default", ConfigDef.convertToString(key.defaultValue, key.type))
                    .put("range", key.validator == null ? null : key.validator.toString())
                    .put("internal", key.internalConfig)
                    .put("synonym", scope.equals("group") ? GroupConfig.brokerSynonym(name).orElse(null) : null);
            }
        });
    }

    private static ObjectNode validate(JsonNode question) {
        ObjectNode answer = Lines.JSON.createObjectNode();
        try {
            Broker broker = Broker.of(question.get("broker"));
            GroupConfig.validate(texts(question.get("validate")), broker.group(), broker.share());
            return answer.putNull("refused");
        } catch (ConfigException | InvalidConfigurationException | IllegalArgumentException refused) {
            return answer.put("refused", refused.getMessage());
        }
    }

    private static ObjectNode evaluate(JsonNode question) throws ReflectiveOperationException {
        Broker broker = Broker.of(question.get("broker"));
        var stored = new Properties();
        stored.putAll(texts(question.get("stored")));
        GroupConfigManager manager = manager(broker);
        manager.updateGroupConfig("a group", stored);
        GroupConfig own = manager.groupConfig("a group").orElse(new GroupConfig(defaults(broker)));
        ObjectNode answer = Lines.JSON.createObjectNode();
        ObjectNode effective = answer.putObject("effective");
        for (String name : new TreeSet<>(GroupConfig.configNames())) {
            if (OF_GROUPS.stream().anyMatch(name::startsWith)) {
                // What a group does not have is the broker's at every use; since 4.4 of each setting.
                Optional<String> synonym = GroupConfig.brokerSynonym(name).filter(any -> !own.originals().containsKey(name));
                Object used = synonym.isPresent() ? broker.all().values().get(synonym.get()) : own.values().get(name);
                effective.put(name, ConfigDef.convertToString(used, GroupConfig.configType(name).orElseThrow()));
            }
        }
        return answer;
    }

    /** Until 4.3 it takes the broker's values as defaults of the groups'. */
    private static GroupConfigManager manager(Broker broker) throws ReflectiveOperationException {
        Constructor<?> make = GroupConfigManager.class.getConstructors()[0];
        return (GroupConfigManager) (make.getParameterCount() == 2
            ? make.newInstance(broker.group(), broker.share())
            : make.newInstance(defaults(broker), broker.group(), broker.share()));
    }

    private static Map<?, ?> defaults(Broker broker) throws ReflectiveOperationException {
        for (var method : GroupCoordinatorConfig.class.getMethods()) {
            if (method.getName().equals("extractGroupConfigMap")) {
                return (Map<?, ?>) method.invoke(broker.group(), broker.share());
            }
        }
        return Map.of(); // Kafka 4.4 has no such method
    }

    private static ObjectNode client(JsonNode question) throws ReflectiveOperationException {
        Map<String, Object> properties = new TreeMap<>(Map.of(
            "bootstrap.servers", "localhost:9092",
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class));
        properties.putAll(texts(question.get("client")));
        Constructor<?> make = Class.forName("org.apache.kafka.clients.consumer.ShareConsumerConfig")
            .getDeclaredConstructor(Map.class);
        make.setAccessible(true);
        ObjectNode answer = Lines.JSON.createObjectNode();
        try {
            make.newInstance(properties);
            return answer.putNull("refused");
        } catch (InvocationTargetException refused) {
            return answer.put("refused", refused.getCause().getMessage());
        }
    }

    private static ConfigDef merged(ConfigDef... parts) {
        var all = new ConfigDef();
        for (ConfigDef part : parts) {
            part.configKeys().values().forEach(all::define);
        }
        return all;
    }

    private static Map<String, String> texts(JsonNode settings) {
        var texts = new TreeMap<String, String>();
        if (settings != null) {
            settings.fields().forEachRemaining(entry -> texts.put(entry.getKey(), entry.getValue().asText()));
        }
        return texts;
    }
}
