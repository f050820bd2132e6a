import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import kafka.server.share.OpenSharePartition;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.fetch.PartitionRotateStrategy;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/**
 * What a share partition of the broker does in a schedule of events: drives Kafka's own class, the clock moved by hand.
 *
 * in:  {"startOffset", "stateEpoch", "leaderEpoch", "batches": [[first, last, state, count]], "maxRecordLocks",
 *       "deliveryCountLimit", "lockDurationMs", "renewEnabled", "ops": [...]}; each op has "now" in ms, and "fails" when the persister
 *      refuses its writes:
 *      {"op": "acquire", "member", "fetched": [[base, last, aborted]], "maxRecords", "batchSize", "mode"}
 *      {"op": "acknowledge", "member", "batches": [[first, last, [type, ...]]]}
 *      {"op": "release", "member"}   {"op": "logStart", "offset"}   {"op": "wait"}
 * out: {"loaded": state, "steps": [{"acquired": [[first, last, count]]?, "fetchOffset"?, "canFetch"?, "error"?, "state",
 *       "writes": [[now, startOffset, dcc, leaderEpoch, stateEpoch, [batches]]]}]}, state being
 *      {"startOffset", "endOffset", "dcc", "findNext", "inFlight": [[first, last, split, [[first, last, state, count, member,
 *       lock ends]]]]}; a load that fails is an error
 */
public final class SharePartitionOracle implements Timer {
    private static final TopicIdPartition TOPIC = new TopicIdPartition(new Uuid(1, 1), 0, "topic");

    private record Task(TimerTaskEntry entry, long number) {
    }

    private final FakeCluster.Clock clock = new FakeCluster.Clock();
    private final PriorityQueue<Task> tasks = new PriorityQueue<>(
        (a, b) -> a.entry.expirationMs != b.entry.expirationMs
            ? Long.compare(a.entry.expirationMs, b.entry.expirationMs) : Long.compare(a.number, b.number));
    private final OpenSharePartition share;
    private long scheduled = 0;
    private boolean refuse = false;
    private ArrayNode writes = Lines.JSON.createArrayNode();

    private SharePartitionOracle(JsonNode question) throws Exception {
        clock.now = 0;
        var persister = (Persister) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {Persister.class},
            (proxy, method, args) -> switch (method.getName()) {
                case "readState" -> read(question);
                case "writeState" -> write((WriteShareGroupStateParameters) args[0]);
                default -> throw new UnsupportedOperationException(method.getName());
            });
        share = new OpenSharePartition("group", TOPIC, question.get("leaderEpoch").asInt(),
            question.get("maxRecordLocks").asInt(), question.get("deliveryCountLimit").asInt(),
            question.get("lockDurationMs").asInt(), question.get("renewEnabled").asBoolean(), this, clock, persister);
        share.partition.maybeInitialize().join();
    }

    public static void main(String[] args) throws Exception {
        Lines.serve(question -> question.has("rotate") ? rotated(question) : new SharePartitionOracle(question).run(question));
    }

    private static ObjectNode rotated(JsonNode question) {
        List<TopicIdPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < question.get("rotate").asInt(); partition++) {
            partitions.add(new TopicIdPartition(new Uuid(1, 1), partition, "topic"));
        }
        var metadata = new PartitionRotateStrategy.PartitionRotateMetadata(question.get("sessionEpoch").asInt());
        ObjectNode answer = Lines.JSON.createObjectNode();
        ArrayNode order = answer.putArray("order");
        PartitionRotateStrategy.rotateRoundRobin(partitions, metadata).forEach(one -> order.add(one.partition()));
        return answer;
    }

    private ObjectNode run(JsonNode question) throws Exception {
        ObjectNode answer = Lines.JSON.createObjectNode();
        answer.set("loaded", state());
        ArrayNode steps = answer.putArray("steps");
        for (JsonNode op : question.get("ops")) {
            refuse = op.has("fails");
            writes = Lines.JSON.createArrayNode();
            ObjectNode step = steps.addObject();
            try {
                advanceClock(op.get("now").asLong() - clock.now);
                perform(op, step);
            } catch (CompletionException refused) {
                step.put("error", refused.getCause().getClass().getSimpleName());
            } catch (RuntimeException failure) {
                step.put("error", failure.getClass().getSimpleName());
            }
            step.set("state", state());
            step.set("writes", writes);
        }
        return answer;
    }

    private void perform(JsonNode op, ObjectNode step) throws Exception {
        switch (op.get("op").asText()) {
            case "acquire" -> acquire(op, step);
            case "acknowledge" -> {
                List<ShareAcknowledgementBatch> batches = new ArrayList<>();
                for (JsonNode batch : op.get("batches")) {
                    List<Byte> types = new ArrayList<>();
                    batch.get(2).forEach(type -> types.add((byte) type.asInt()));
                    batches.add(new ShareAcknowledgementBatch(batch.get(0).asLong(), batch.get(1).asLong(), types));
                }
                share.partition.acknowledge(op.get("member").asText(), batches).join();
            }
            case "release" -> share.partition.releaseAcquiredRecords(op.get("member").asText()).join();
            case "logStart" -> share.logStartMoved(op.get("offset").asLong());
            case "wait" -> { }
            default -> throw new UnsupportedOperationException("no such op: " + op);
        }
    }

    private void acquire(JsonNode op, ObjectNode step) {
        step.put("canFetch", share.canFetch());
        long fetchOffset = share.partition.nextFetchOffset();
        step.put("fetchOffset", fetchOffset);
        List<AbortedTransaction> aborted = new ArrayList<>();
        ByteBuffer buffer = ByteBuffer.allocate(256 * (op.get("fetched").size() + 1));
        for (JsonNode batch : op.get("fetched")) {
            long base = batch.get(0).asLong();
            boolean transactional = batch.get(2).asBoolean();
            if (transactional) {
                aborted.add(new AbortedTransaction().setProducerId(base).setFirstOffset(base));
            }
            MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE,
                TimestampType.CREATE_TIME, base, 0L, transactional ? base : RecordBatch.NO_PRODUCER_ID,
                transactional ? (short) 0 : RecordBatch.NO_PRODUCER_EPOCH, transactional ? 0 : RecordBatch.NO_SEQUENCE,
                transactional, 0);
            builder.appendWithOffset(base, new SimpleRecord("first".getBytes()));
            if (batch.get(1).asLong() > base) {
                builder.appendWithOffset(batch.get(1).asLong(), new SimpleRecord("last".getBytes()));
            }
            builder.close();
        }
        buffer.flip();
        var data = new FetchPartitionData(Errors.NONE, 0, 0, MemoryRecords.readableRecords(buffer), Optional.empty(),
            OptionalLong.empty(), Optional.of(aborted), OptionalInt.empty(), false);
        ArrayNode acquired = step.putArray("acquired");
        share.partition.acquire(op.get("member").asText(), ShareAcquireMode.of(op.get("mode").asText()),
            op.get("batchSize").asInt(), op.get("maxRecords").asInt(), fetchOffset, data, FetchIsolation.TXN_COMMITTED)
            .acquiredRecords()
            .forEach(one -> acquired.addArray().add(one.firstOffset()).add(one.lastOffset()).add((int) one.deliveryCount()));
    }

    // ---- the persister ----

    private Object read(JsonNode question) {
        var data = PartitionFactory.newPartitionAllData(0, question.get("stateEpoch").asInt(),
            question.get("startOffset").asLong(), PartitionFactory.DEFAULT_ERROR_CODE, PartitionFactory.DEFAULT_ERR_MESSAGE,
            Lines.batches(question.get("batches")));
        return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder()
            .setTopicsData(List.of(new TopicData<>(TOPIC.topicId(), List.of(data)))).build());
    }

    private Object write(WriteShareGroupStateParameters parameters) {
        var data = parameters.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
        writes.addArray().add(clock.now).add(data.startOffset()).add(data.deliveryCompleteCount()).add(data.leaderEpoch())
            .add(data.stateEpoch()).add(Lines.array(data.stateBatches()));
        short error = refuse ? Errors.COORDINATOR_NOT_AVAILABLE.code() : PartitionFactory.DEFAULT_ERROR_CODE;
        var answer = PartitionFactory.newPartitionErrorData(0, error, "refused");
        return CompletableFuture.completedFuture(new WriteShareGroupStateResult.Builder()
            .setTopicsData(List.of(new TopicData<>(TOPIC.topicId(), List.of(answer)))).build());
    }

    // ---- the timer: what is due runs at its own time, in the order of scheduling ----

    @Override
    public void add(TimerTask task) {
        tasks.add(new Task(new TimerTaskEntry(task, clock.now + task.delayMs), scheduled++));
    }

    @Override
    public boolean advanceClock(long ms) {
        long now = clock.now + ms;
        while (!tasks.isEmpty() && tasks.peek().entry.expirationMs <= now) {
            TimerTaskEntry due = tasks.poll().entry;
            if (!due.cancelled()) {
                clock.now = Math.max(clock.now, due.expirationMs);
                due.timerTask.run();
            }
        }
        clock.now = now;
        return true;
    }

    @Override
    public int size() {
        return tasks.size();
    }

    @Override
    public void close() {
    }

    // ---- what is in memory ----

    private ObjectNode state() {
        ObjectNode state = Lines.JSON.createObjectNode()
            .put("startOffset", share.startOffset())
            .put("endOffset", share.endOffset())
            .put("dcc", share.deliveryCompleteCount())
            .put("findNext", share.findNextFetchOffset());
        ArrayNode batches = state.putArray("inFlight");
        for (InFlightBatch batch : share.inFlight().values()) {
            ArrayNode runs = batches.addArray().add(batch.firstOffset()).add(batch.lastOffset())
                .add(batch.offsetState() != null).addArray();
            if (batch.offsetState() == null) {
                runs.add(run(batch.firstOffset(), batch.lastOffset(), batch.batchState().id, batch.batchDeliveryCount(),
                    batch.batchMemberId(), batch.batchAcquisitionLockTimeoutTask() == null
                        ? 0 : batch.batchAcquisitionLockTimeoutTask().expirationMs()));
            } else {
                ArrayNode last = null;
                for (var entry : batch.offsetState().entrySet()) {
                    InFlightState one = entry.getValue();
                    ArrayNode run = run(entry.getKey(), entry.getKey(), one.state().id, one.deliveryCount(), one.memberId(),
                        one.acquisitionLockTimeoutTask() == null ? 0 : one.acquisitionLockTimeoutTask().expirationMs());
                    if (last != null && same(last, run)) {
                        last.set(1, run.get(1));
                    } else {
                        runs.add(run);
                        last = run;
                    }
                }
            }
        }
        return state;
    }

    private static boolean same(ArrayNode a, ArrayNode b) {
        for (int field = 2; field < a.size(); field++) {
            if (!a.get(field).equals(b.get(field))) {
                return false;
            }
        }
        return true;
    }

    private static ArrayNode run(long first, long last, byte state, int count, String member, long lockEnds) {
        return Lines.JSON.createArrayNode().add(first).add(last).add((int) state).add(count).add(member).add(lockEnds);
    }
}
