import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.ShareGroupOffset;
import org.apache.kafka.coordinator.share.generated.ShareSnapshotKey;
import org.apache.kafka.coordinator.share.generated.ShareUpdateKey;
import org.apache.kafka.server.share.SharePartitionKey;

/**
 * How long Kafka's own classes take for the records of a folder, in a JVM that stays warm.
 *
 * in:  {"folder": path, "work": "deserialize" | "replay"}
 * out: {"records": n, "wall": seconds, "cpu": seconds of all threads, "thread": CPU seconds of the working one}
 *
 * in:  {"folder": path, "work": "dump", "to": file, "after": [index, ...]}
 * out: {"records": n, "states": n}; the file gets a line of JSON a share partition with its final state, and one for
 *      the state of its share partition after each of those records, which has "after" as well
 *
 * The folder holds four files: "keys" and "values" are the bytes, one record after another; "key_ends" and
 * "value_ends" are little-endian int64, where each record's bytes end; ~end stands for a null value. Of values there
 * may be more than 2 GiB. They are read once, into memory, before anything is timed.
 */
public final class TimedReplay {
    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    /** Whatever was made last: no compiler may leave out what is stored here. */
    private volatile Object made;
    private Path folder;
    private Blob keys;
    private Blob values;

    public static void main(String[] args) throws Exception {
        var timed = new TimedReplay();
        Lines.serve(timed::answer);
    }

    private ObjectNode answer(JsonNode question) throws Exception {
        load(Path.of(question.get("folder").asText()));
        String work = question.get("work").asText();
        return switch (work) {
            case "deserialize" -> timed(this::deserialize);
            case "replay" -> timed(this::replay);
            case "dump" -> dump(question);
            default -> throw new IllegalArgumentException(work);
        };
    }

    private interface Work {
        void run();
    }

    private ObjectNode timed(Work work) {
        System.gc(); // what the previous run left behind is not this one's cost
        long thread = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        long cpu = PROCESS.getProcessCpuTime();
        long wall = System.nanoTime();
        work.run();
        wall = System.nanoTime() - wall;
        cpu = PROCESS.getProcessCpuTime() - cpu;
        thread = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - thread;
        return Lines.JSON.createObjectNode()
            .put("records", keys.size())
            .put("wall", wall / 1e9)
            .put("cpu", cpu / 1e9)
            .put("thread", thread / 1e9);
    }

    private void deserialize() {
        var serde = new ShareCoordinatorRecordSerde();
        for (int i = 0; i < keys.size(); i++) {
            made = serde.deserialize(keys.get(i), values.get(i));
        }
    }

    private void replay() {
        var serde = new ShareCoordinatorRecordSerde();
        ShareCoordinatorShard shard = shard();
        for (int i = 0; i < keys.size(); i++) {
            shard.replay(i, -1L, (short) -1, serde.deserialize(keys.get(i), values.get(i)));
        }
        made = shard;
    }

    private ObjectNode dump(JsonNode question) throws Exception {
        var serde = new ShareCoordinatorRecordSerde();
        ShareCoordinatorShard shard = shard();
        Map<SharePartitionKey, ShareGroupOffset> states = Shards.field(shard, "shareStateMap");
        Set<Integer> after = new HashSet<>();
        question.path("after").forEach(index -> after.add(index.asInt()));
        try (BufferedWriter out = Files.newBufferedWriter(Path.of(question.get("to").asText()))) {
            for (int i = 0; i < keys.size(); i++) {
                CoordinatorRecord record = serde.deserialize(keys.get(i), values.get(i));
                shard.replay(i, -1L, (short) -1, record);
                if (after.contains(i)) {
                    SharePartitionKey key = keyOf(record);
                    out.write(line(key, states.get(key)).put("after", i).toString());
                    out.newLine();
                }
            }
            for (var entry : states.entrySet()) {
                out.write(line(entry.getKey(), entry.getValue()).toString());
                out.newLine();
            }
        }
        return Lines.JSON.createObjectNode().put("records", keys.size()).put("states", states.size());
    }

    private static ShareCoordinatorShard shard() {
        return Shards.make(Shards.DEFAULT_UPDATES_PER_SNAPSHOT, Shards.DEFAULT_COLD_MS, Time.SYSTEM);
    }

    private static SharePartitionKey keyOf(CoordinatorRecord record) {
        if (record.key() instanceof ShareSnapshotKey key) {
            return SharePartitionKey.getInstance(key.groupId(), key.topicId(), key.partition());
        }
        var key = (ShareUpdateKey) record.key();
        return SharePartitionKey.getInstance(key.groupId(), key.topicId(), key.partition());
    }

    private static ObjectNode line(SharePartitionKey key, ShareGroupOffset state) {
        Uuid topic = key.topicId();
        ObjectNode line = Lines.JSON.createObjectNode()
            .put("group_id", key.groupId())
            .put("topic_id", topic.toString())
            .put("partition", key.partition());
        if (state == null) {
            return line; // a tombstone removed it
        }
        line.put("snapshot_epoch", state.snapshotEpoch())
            .put("state_epoch", state.stateEpoch())
            .put("leader_epoch", state.leaderEpoch())
            .put("start_offset", state.startOffset())
            .put("delivery_complete_count", state.deliveryCompleteCount())
            .put("create_timestamp", state.createTimestamp())
            .put("write_timestamp", state.writeTimestamp());
        line.set("batches", Lines.array(state.stateBatches()));
        return line;
    }

    private void load(Path wanted) throws IOException {
        if (!wanted.equals(folder)) {
            keys = new Blob(wanted.resolve("keys"), wanted.resolve("key_ends"));
            values = new Blob(wanted.resolve("values"), wanted.resolve("value_ends"));
            folder = wanted;
        }
    }

    /** Many byte strings of a file, in pieces, because one array holds no more than 2 GiB. */
    private static final class Blob {
        private static final int PIECE = 1 << 29;
        private static final int LARGEST = 1 << 24; // each piece goes on into the next by the largest record

        private final long[] ends;
        private final byte[][] pieces;

        Blob(Path bytes, Path endsOfEach) throws IOException {
            ByteBuffer raw = ByteBuffer.wrap(Files.readAllBytes(endsOfEach)).order(ByteOrder.LITTLE_ENDIAN);
            ends = new long[raw.remaining() / Long.BYTES];
            raw.asLongBuffer().get(ends);
            try (var file = new RandomAccessFile(bytes.toFile(), "r")) {
                long size = file.length();
                pieces = new byte[(int) (size / PIECE) + 1][];
                for (int i = 0; i < pieces.length; i++) {
                    long begin = (long) i * PIECE;
                    pieces[i] = new byte[(int) Math.min(PIECE + LARGEST, size - begin)];
                    file.seek(begin);
                    file.readFully(pieces[i]);
                }
            }
        }

        int size() {
            return ends.length;
        }

        ByteBuffer get(int i) {
            if (ends[i] < 0) {
                return null;
            }
            long begin = i == 0 ? 0 : ends[i - 1] < 0 ? ~ends[i - 1] : ends[i - 1];
            int piece = (int) (begin / PIECE);
            return ByteBuffer.wrap(pieces[piece], (int) (begin % PIECE), (int) (ends[i] - begin)).slice();
        }
    }
}
