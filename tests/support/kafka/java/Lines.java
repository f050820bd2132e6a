import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/**
 * What the oracles share: a JSON object a line in, a JSON object a line out, flushed, until standard input ends.
 * A failure is an answer, too: {"error": "..."}.
 */
final class Lines {
    static final ObjectMapper JSON = new ObjectMapper();

    interface Answer {
        ObjectNode to(JsonNode question) throws Exception;
    }

    static void serve(Answer answer) throws IOException {
        System.setOut(System.err); // whatever Kafka prints must not mix with the answers
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        String line;
        while ((line = in.readLine()) != null) {
            if (!line.isBlank()) {
                out.println(answerTo(JSON.readTree(line), answer));
            }
        }
        System.exit(0); // Kafka's metrics leave threads behind
    }

    private static ObjectNode answerTo(JsonNode question, Answer answer) {
        try {
            return answer.to(question);
        } catch (Exception | StackOverflowError | AssertionError failure) {
            return JSON.createObjectNode().put("error", failure.toString());
        }
    }

    static int intOr(JsonNode question, String name, int otherwise) {
        return question.has(name) ? question.get(name).asInt() : otherwise;
    }

    /** Bytes of a hexadecimal text; null stays null, which is how a tombstone is written. */
    static ByteBuffer bytes(JsonNode hex) {
        return hex == null || hex.isNull() ? null : ByteBuffer.wrap(HexFormat.of().parseHex(hex.asText()));
    }

    static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }

    /** State batches are written [firstOffset, lastOffset, deliveryState, deliveryCount]. */
    static List<PersisterStateBatch> batches(JsonNode array) {
        List<PersisterStateBatch> batches = new ArrayList<>();
        for (JsonNode batch : array) {
            batches.add(new PersisterStateBatch(
                batch.get(0).asLong(), batch.get(1).asLong(), (byte) batch.get(2).asInt(), (short) batch.get(3).asInt()));
        }
        return batches;
    }

    static ArrayNode array(Iterable<PersisterStateBatch> batches) {
        ArrayNode array = JSON.createArrayNode();
        for (PersisterStateBatch batch : batches) {
            array.addArray()
                .add(batch.firstOffset())
                .add(batch.lastOffset())
                .add((int) batch.deliveryState())
                .add((int) batch.deliveryCount());
        }
        return array;
    }
}
