import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData.InitializeStateData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData.ReadStateData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData.ReadStateSummaryData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData.WriteStateData;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;

/**
 * The records that a share coordinator writes when asked: drives a real shard, which replays what it answers with.
 *
 * in:  {"topics": {base64: partitions}, "ops": [...], "updatesPerSnapshot": n?, "coldMs": n?}
 *      each op may have "now", the clock in ms from then on; "g" group, "t" topic id, "p" partition:
 *      {"op": "init", g, t, p, "stateEpoch", "startOffset"}
 *      {"op": "write", g, t, p, "leaderEpoch", "stateEpoch", "startOffset", "dcc", "batches"}
 *      {"op": "read", g, t, p, "leaderEpoch"}   {"op": "summary", g, t, p}   {"op": "cold"}
 * out: {"results": [{"error": code?, "answer": {...}?, "records": [{"o", "k", "v"}]}, ...]}
 */
public final class CoordinatorOracle {
    private final FakeCluster.Clock clock = new FakeCluster.Clock();
    private final ShareCoordinatorRecordSerde serde = new ShareCoordinatorRecordSerde();
    private final ShareCoordinatorShard shard;
    private long nextOffset = 0;

    private CoordinatorOracle(JsonNode question) {
        shard = Shards.make(
            Lines.intOr(question, "updatesPerSnapshot", Shards.DEFAULT_UPDATES_PER_SNAPSHOT),
            Lines.intOr(question, "coldMs", Shards.DEFAULT_COLD_MS),
            clock);
        Map<Uuid, Integer> topics = new HashMap<>();
        question.get("topics").fields()
            .forEachRemaining(topic -> topics.put(Uuid.fromString(topic.getKey()), topic.getValue().asInt()));
        shard.onLoaded(new FakeCluster(topics));
    }

    public static void main(String[] args) throws Exception {
        Lines.serve(question -> new CoordinatorOracle(question).run(question.get("ops")));
    }

    private ObjectNode run(JsonNode ops) {
        ObjectNode answer = Lines.JSON.createObjectNode();
        ArrayNode results = answer.putArray("results");
        for (JsonNode op : ops) {
            if (op.has("now")) {
                clock.now = op.get("now").asLong();
            }
            ObjectNode result = results.addObject();
            append(perform(op, result).records(), result.putArray("records"));
        }
        return answer;
    }

    /** Does what the coordinator's runtime does with the records of an answer: write them, and replay them. */
    private void append(List<CoordinatorRecord> records, ArrayNode written) {
        for (CoordinatorRecord record : records) {
            written.addObject()
                .put("o", nextOffset)
                .put("k", Lines.hex(serde.serializeKey(record)))
                .put("v", Lines.hex(serde.serializeValue(record)));
            shard.replay(nextOffset++, -1L, (short) -1, record);
        }
    }

    private CoordinatorResult<?, CoordinatorRecord> perform(JsonNode op, ObjectNode result) {
        return switch (op.get("op").asText()) {
            case "init" -> initialize(op, result);
            case "write" -> write(op, result);
            case "read" -> read(op, result);
            case "summary" -> summary(op, result);
            case "cold" -> shard.snapshotColdPartitions();
            default -> throw new IllegalArgumentException("no such op: " + op);
        };
    }

    private CoordinatorResult<?, CoordinatorRecord> initialize(JsonNode op, ObjectNode result) {
        var partition = new InitializeShareGroupStateRequestData.PartitionData()
            .setPartition(partition(op))
            .setStateEpoch(op.get("stateEpoch").asInt())
            .setStartOffset(op.get("startOffset").asLong());
        var done = shard.initializeState(new InitializeShareGroupStateRequestData()
            .setGroupId(group(op))
            .setTopics(List.of(new InitializeStateData().setTopicId(topic(op)).setPartitions(List.of(partition)))));
        result.put("error", (int) done.response().results().get(0).partitions().get(0).errorCode());
        return done;
    }

    private CoordinatorResult<?, CoordinatorRecord> write(JsonNode op, ObjectNode result) {
        var batches = Lines.batches(op.get("batches")).stream()
            .map(batch -> new WriteShareGroupStateRequestData.StateBatch()
                .setFirstOffset(batch.firstOffset())
                .setLastOffset(batch.lastOffset())
                .setDeliveryState(batch.deliveryState())
                .setDeliveryCount(batch.deliveryCount()))
            .toList();
        var partition = new WriteShareGroupStateRequestData.PartitionData()
            .setPartition(partition(op))
            .setLeaderEpoch(op.get("leaderEpoch").asInt())
            .setStateEpoch(op.get("stateEpoch").asInt())
            .setStartOffset(op.get("startOffset").asLong())
            .setDeliveryCompleteCount(op.get("dcc").asInt())
            .setStateBatches(batches);
        var done = shard.writeState(new WriteShareGroupStateRequestData()
            .setGroupId(group(op))
            .setTopics(List.of(new WriteStateData().setTopicId(topic(op)).setPartitions(List.of(partition)))));
        result.put("error", (int) done.response().results().get(0).partitions().get(0).errorCode());
        return done;
    }

    private CoordinatorResult<?, CoordinatorRecord> read(JsonNode op, ObjectNode result) {
        var partition = new ReadShareGroupStateRequestData.PartitionData()
            .setPartition(partition(op))
            .setLeaderEpoch(op.get("leaderEpoch").asInt());
        var done = shard.readStateAndMaybeUpdateLeaderEpoch(new ReadShareGroupStateRequestData()
            .setGroupId(group(op))
            .setTopics(List.of(new ReadStateData().setTopicId(topic(op)).setPartitions(List.of(partition)))));
        var read = done.response().results().get(0).partitions().get(0);
        ArrayNode batches = result.put("error", (int) read.errorCode())
            .putObject("answer")
            .put("startOffset", read.startOffset())
            .put("stateEpoch", read.stateEpoch())
            .putArray("batches");
        read.stateBatches().forEach(batch -> batches.addArray()
            .add(batch.firstOffset())
            .add(batch.lastOffset())
            .add((int) batch.deliveryState())
            .add((int) batch.deliveryCount()));
        return done;
    }

    private CoordinatorResult<?, CoordinatorRecord> summary(JsonNode op, ObjectNode result) {
        var partition = new ReadShareGroupStateSummaryRequestData.PartitionData().setPartition(partition(op));
        var done = shard.readStateSummary(new ReadShareGroupStateSummaryRequestData()
            .setGroupId(group(op))
            .setTopics(List.of(new ReadStateSummaryData().setTopicId(topic(op)).setPartitions(List.of(partition)))));
        var read = done.response().results().get(0).partitions().get(0);
        result.put("error", (int) read.errorCode())
            .putObject("answer")
            .put("startOffset", read.startOffset())
            .put("stateEpoch", read.stateEpoch())
            .put("leaderEpoch", read.leaderEpoch())
            .put("deliveryCompleteCount", read.deliveryCompleteCount());
        return done;
    }

    private static String group(JsonNode op) {
        return op.get("g").asText();
    }

    private static Uuid topic(JsonNode op) {
        return Uuid.fromString(op.get("t").asText());
    }

    private static int partition(JsonNode op) {
        return Lines.intOr(op, "p", 0);
    }
}
