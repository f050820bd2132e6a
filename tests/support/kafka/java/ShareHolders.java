import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of share groups that do what they are asked to, one step after another: Kafka's own consumer.
 *
 * in:  {"do": "open", "member", "bootstrap", "group", "topic", "config": {...}}; {"do": "poll", "member", "ms"};
 *      {"do": "acknowledge", "member", "type"}: what it polled last and has not acknowledged; {"do": "close", "member"}
 * out: {"called", "returned"}: microseconds since the epoch; of a poll "records": [[partition, offset, delivery count]],
 *      of acknowledgements "refused": how many partitions
 */
public final class ShareHolders {
    private static final long EPOCH_NS = System.currentTimeMillis() * 1_000_000 - System.nanoTime();
    private static final Map<String, KafkaShareConsumer<byte[], byte[]>> MEMBERS = new HashMap<>();
    private static final Map<String, Map<String, ConsumerRecord<byte[], byte[]>>> HELD = new HashMap<>();

    public static void main(String[] args) throws IOException {
        Lines.serve(ShareHolders::answer);
    }

    private static ObjectNode answer(JsonNode question) {
        String name = question.get("member").asText();
        ObjectNode answer = Lines.JSON.createObjectNode().put("called", now());
        switch (question.get("do").asText()) {
            case "open" -> open(name, question);
            case "poll" -> poll(name, question, answer);
            case "acknowledge" -> acknowledge(name, question, answer);
            case "close" -> MEMBERS.remove(name).close();
            default -> throw new IllegalArgumentException(question.toString());
        }
        return answer.put("returned", now());
    }

    private static void open(String name, JsonNode question) {
        var settings = new Properties();
        settings.put("bootstrap.servers", question.get("bootstrap").asText());
        settings.put("group.id", question.get("group").asText());
        settings.put("client.id", name);
        settings.put("share.acknowledgement.mode", "explicit");
        question.get("config").properties().forEach(one -> settings.put(one.getKey(), one.getValue().asText()));
        var consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(question.get("topic").asText()));
        MEMBERS.put(name, consumer);
        HELD.put(name, new HashMap<>());
    }

    private static void poll(String name, JsonNode question, ObjectNode answer) {
        ArrayNode records = answer.putArray("records");
        for (ConsumerRecord<byte[], byte[]> record : MEMBERS.get(name).poll(Duration.ofMillis(question.get("ms").asLong()))) {
            HELD.get(name).put(record.partition() + "/" + record.offset(), record);
            records.addArray().add(record.partition()).add(record.offset()).add((int) record.deliveryCount().orElseThrow());
        }
    }

    private static void acknowledge(String name, JsonNode question, ObjectNode answer) {
        AcknowledgeType type = AcknowledgeType.valueOf(question.get("type").asText());
        for (ConsumerRecord<byte[], byte[]> record : HELD.get(name).values()) {
            MEMBERS.get(name).acknowledge(record, type);
        }
        HELD.get(name).clear();
        long refused = MEMBERS.get(name).commitSync().values().stream().filter(error -> error.isPresent()).count();
        answer.put("refused", refused);
    }

    private static long now() {
        return (EPOCH_NS + System.nanoTime()) / 1000;
    }
}
