import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Constructor;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.server.share.SharePartitionKey;

/**
 * How Kafka's generated classes read a record, and which partition a key belongs to.
 *
 * in:  {"topic": "state" | "offsets", "k": hex, "v": hex | null}
 * out: {"type": n, "key": {...}, "version": n, "value": {...} | null, "k2": hex, "v2": hex | null}
 *      with the names of Kafka's JSON converters; k2 and v2 are the record as Kafka would write it again;
 *      "unwritable": text instead of v2, where it would not
 *
 * in:  {"partitionFor": {"group": g, "topicId": base64, "partition": n}, "numPartitions": n}
 * out: {"coordinatorKey": text, "partition": n}
 */
public final class RecordJsonOracle {
    /** The record kinds of one topic: how Kafka reads them, and how it shows them. */
    private record Kinds(CoordinatorRecordSerde serde, Class<?> converters) {
        static Kinds of(String coordinator, String serde) throws ReflectiveOperationException {
            String home = "org.apache.kafka.coordinator." + coordinator;
            // Public for one coordinator, package-private for the other.
            Constructor<?> make = Class.forName(home + "." + serde).getDeclaredConstructor();
            make.setAccessible(true);
            Class<?> converters = Class.forName(home + ".generated.CoordinatorRecordJsonConverters");
            return new Kinds((CoordinatorRecordSerde) make.newInstance(), converters);
        }

        JsonNode keyOf(CoordinatorRecord record) throws ReflectiveOperationException {
            return (JsonNode) converters.getMethod("writeRecordKeyAsJson", ApiMessage.class).invoke(null, record.key());
        }

        JsonNode valueOf(CoordinatorRecord record) throws ReflectiveOperationException {
            var value = record.value();
            return (JsonNode) converters.getMethod("writeRecordValueAsJson", ApiMessage.class, short.class)
                .invoke(null, value.message(), value.version());
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, Kinds> topics = Map.of(
            "state", Kinds.of("share", "ShareCoordinatorRecordSerde"),
            "offsets", Kinds.of("group", "GroupCoordinatorRecordSerde"));
        Lines.serve(question -> question.has("partitionFor")
            ? partitionFor(question.get("partitionFor"), question.get("numPartitions").asInt())
            : decode(topics.get(question.get("topic").asText()), question));
    }

    private static ObjectNode decode(Kinds kinds, JsonNode question) throws ReflectiveOperationException {
        CoordinatorRecord record =
            kinds.serde().deserialize(Lines.bytes(question.get("k")), Lines.bytes(question.get("v")));
        ObjectNode answer = Lines.JSON.createObjectNode();
        answer.put("type", record.key().apiKey());
        answer.set("key", kinds.keyOf(record));
        if (record.value() == null) {
            answer.putNull("value");
        } else {
            answer.put("version", record.value().version());
            answer.set("value", kinds.valueOf(record));
        }
        answer.put("k2", Lines.hex(kinds.serde().serializeKey(record)));
        try {
            answer.put("v2", Lines.hex(kinds.serde().serializeValue(record)));
        } catch (RuntimeException unwritable) {
            // Kafka reads tags in any order, and writes them in rising order only.
            answer.put("unwritable", unwritable.getMessage());
        }
        return answer;
    }

    private static ObjectNode partitionFor(JsonNode key, int numPartitions) {
        String text = SharePartitionKey.asCoordinatorKey(
            key.get("group").asText(), Uuid.fromString(key.get("topicId").asText()), key.get("partition").asInt());
        return Lines.JSON.createObjectNode()
            .put("coordinatorKey", text)
            .put("partition", Utils.abs(text.hashCode()) % numPartitions);
    }
}
