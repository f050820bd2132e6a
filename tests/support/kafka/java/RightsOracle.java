import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What a user may do, found by doing it with Kafka's own clients. It changes offsets of the group, and deletes it.
 *
 * in:  {"config": {s: s}, "topics": [s], "topic": s, "group": s}
 * out: {"OPERATION TYPE NAME": b, ..., "consumes": b}
 */
public final class RightsOracle {
    private static final Duration LONG = Duration.ofSeconds(30);

    private interface Attempt {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Lines.serve(RightsOracle::answer);
    }

    private static ObjectNode answer(JsonNode question) throws Exception {
        var config = new Properties();
        question.get("config").properties().forEach(one -> config.put(one.getKey(), one.getValue().asText()));
        config.put("key.deserializer", ByteArrayDeserializer.class.getName());
        config.put("value.deserializer", ByteArrayDeserializer.class.getName());
        String group = question.get("group").asText();
        String topic = question.get("topic").asText();
        ObjectNode found = Lines.JSON.createObjectNode();
        try (Admin admin = Admin.create(config)) {
            for (JsonNode one : question.get("topics")) {
                String name = one.asText();
                found.put("DESCRIBE TOPIC " + name, may(() -> admin.describeTopics(List.of(name)).allTopicNames().get()));
                found.put("READ TOPIC " + name, may(() -> read(config, name)));
            }
            found.put("DESCRIBE_CONFIGS TOPIC " + topic, may(() -> configs(admin, ConfigResource.Type.TOPIC, topic)));
            found.put("DESCRIBE_CONFIGS GROUP " + group, may(() -> configs(admin, ConfigResource.Type.GROUP, group)));
            found.put("DESCRIBE_CONFIGS CLUSTER kafka-cluster",
                may(() -> configs(admin, ConfigResource.Type.BROKER, "1")));
            found.put("DESCRIBE CLUSTER kafka-cluster", may(() -> admin.describeAcls(AclBindingFilter.ANY).values().get()));
            found.put("DESCRIBE GROUP " + group, may(() -> admin.describeShareGroups(List.of(group)).all().get()));
            found.put("consumes", may(() -> consume(config, group, topic)));
            found.put("READ GROUP " + group, may(() -> alter(admin, group, topic)));
            found.put("DELETE GROUP " + group, may(() -> admin.deleteShareGroups(List.of(group)).all().get()));
        }
        return found;
    }

    /** Whether it is authorized: any other error of the API comes after the authorizer's answer. */
    private static boolean may(Attempt attempt) throws Exception {
        try {
            attempt.run();
        } catch (AuthorizationException refused) {
            return false;
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof AuthorizationException) {
                return false;
            }
            if (!(failed.getCause() instanceof ApiException)
                || failed.getCause() instanceof TimeoutException) {
                throw failed;
            }
        }
        return true;
    }

    private static void configs(Admin admin, ConfigResource.Type type, String name) throws Exception {
        admin.describeConfigs(List.of(new ConfigResource(type, name))).all().get();
    }

    private static void alter(Admin admin, String group, String topic) throws Exception {
        try {
            admin.alterShareGroupOffsets(group, Map.of(new TopicPartition(topic, 0), 0L)).all().get();
        } catch (ExecutionException failed) {
            // Asked for only after the group was allowed.
            if (!(failed.getCause() instanceof TopicAuthorizationException)) {
                throw failed;
            }
        }
    }

    private static void read(Properties config, String topic) {
        try (var consumer = new KafkaConsumer<byte[], byte[]>(config)) {
            var partitions = consumer.partitionsFor(topic, LONG).stream()
                .map(one -> new TopicPartition(topic, one.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            until("records of " + topic, () -> !consumer.poll(Duration.ofSeconds(1)).isEmpty());
        }
    }

    private static void consume(Properties config, String group, String topic) {
        var mine = new Properties();
        mine.putAll(config);
        mine.put("group.id", group);
        try (var consumer = new KafkaShareConsumer<byte[], byte[]>(mine)) {
            consumer.subscribe(List.of(topic));
            until("records in " + group, () -> !consumer.poll(Duration.ofSeconds(1)).isEmpty());
        }
    }

    private static void until(String what, BooleanSupplier done) {
        long deadline = System.nanoTime() + LONG.toNanos();
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("no " + what);
            }
        }
    }
}
