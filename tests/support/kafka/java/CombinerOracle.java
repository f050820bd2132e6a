import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/**
 * How Kafka merges the state batches of a share partition.
 *
 * in:  {"existing": [[first, last, state, count], ...], "new": [...], "startOffset": n (default -1)}
 * out: {"combined": [[first, last, state, count], ...]}
 */
public final class CombinerOracle {
    private static final int SECONDS = 5;

    // A merge that never ends is an answer we want to see, hence the thread of its own.
    private static final ExecutorService THREADS = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });

    public static void main(String[] args) throws Exception {
        Lines.serve(CombinerOracle::combine);
    }

    private static ObjectNode combine(JsonNode question) throws Exception {
        long startOffset = question.has("startOffset") ? question.get("startOffset").asLong() : -1;
        var combiner = new PersisterStateBatchCombiner(
            Lines.batches(question.get("existing")), Lines.batches(question.get("new")), startOffset);
        ObjectNode answer = Lines.JSON.createObjectNode();
        try {
            List<PersisterStateBatch> combined =
                THREADS.submit(combiner::combineStateBatches).get(SECONDS, TimeUnit.SECONDS);
            answer.set("combined", Lines.array(combined));
        } catch (TimeoutException endless) {
            answer.put("error", "not merged within " + SECONDS + " s");
        } catch (ExecutionException failure) {
            answer.put("error", failure.getCause().toString());
        }
        return answer;
    }
}
