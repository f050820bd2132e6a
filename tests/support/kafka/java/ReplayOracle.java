import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.Deserializer.UnknownRecordTypeException;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.ShareGroupOffset;
import org.apache.kafka.server.share.SharePartitionKey;

/**
 * The state a share coordinator has after loading these records of one partition of the state topic.
 *
 * in:  {"records": [{"o": offset, "k": hex, "v": hex | null}, ...]}
 * out: {"status": ["ok" | "skipped" | "error: ...", ...], "loadFailedAt": index | null,
 *       "states": {"group:topicIdBase64:partition": {...}}, "lastRedundantOffset": n | null}
 *
 * As in the broker's loader an unknown key type is skipped, and any other failure ends the load; what was reached so
 * far is shown. With --keep-going the records after a failure are replayed as well.
 */
public final class ReplayOracle {
    public static void main(String[] args) throws Exception {
        boolean keepGoing = Arrays.asList(args).contains("--keep-going");
        Lines.serve(question -> replay(question, keepGoing));
    }

    private static ObjectNode replay(JsonNode question, boolean keepGoing) throws ReflectiveOperationException {
        ShareCoordinatorShard shard =
            Shards.make(Shards.DEFAULT_UPDATES_PER_SNAPSHOT, Shards.DEFAULT_COLD_MS, Time.SYSTEM);
        ObjectNode answer = Lines.JSON.createObjectNode();
        load(shard, question.get("records"), keepGoing, answer);

        Map<SharePartitionKey, ShareGroupOffset> states = Shards.field(shard, "shareStateMap");
        ObjectNode shown = answer.putObject("states");
        states.forEach((key, state) -> shown.set(key.asCoordinatorKey(), state(state)));
        Optional<Long> redundant = shard.lastRedundantOffset().response();
        answer.put("lastRedundantOffset", redundant.orElse(null));
        return answer;
    }

    private static void load(ShareCoordinatorShard shard, JsonNode records, boolean keepGoing, ObjectNode answer) {
        var serde = new ShareCoordinatorRecordSerde();
        ArrayNode status = answer.putArray("status");
        Integer failedAt = null;
        for (JsonNode line : records) {
            int index = status.size();
            try {
                CoordinatorRecord record = serde.deserialize(Lines.bytes(line.get("k")), Lines.bytes(line.get("v")));
                shard.replay(line.get("o").asLong(), -1L, (short) -1, record);
                status.add("ok");
            } catch (UnknownRecordTypeException unknown) {
                status.add("skipped");
            } catch (RuntimeException failure) {
                status.add("error: " + failure.getClass().getSimpleName());
                failedAt = failedAt == null ? Integer.valueOf(index) : failedAt;
                if (!keepGoing) {
                    break;
                }
            }
        }
        answer.put("loadFailedAt", failedAt);
    }

    private static JsonNode state(ShareGroupOffset state) {
        ObjectNode shown = Lines.JSON.createObjectNode()
            .put("snapshotEpoch", state.snapshotEpoch())
            .put("stateEpoch", state.stateEpoch())
            .put("leaderEpoch", state.leaderEpoch())
            .put("startOffset", state.startOffset())
            .put("deliveryCompleteCount", state.deliveryCompleteCount())
            .put("createTimestamp", state.createTimestamp())
            .put("writeTimestamp", state.writeTimestamp());
        shown.set("batches", Lines.array(state.stateBatches()));
        return shown;
    }
}
