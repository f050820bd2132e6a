import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartition;
// Exit is in the one up to 4.3, and in the other from 4.4 on.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.tools.consumer.group.ShareGroupCommand;

/**
 * Kafka's own kafka-share-groups.sh, run many times in one process, whose start takes longer than the command.
 *
 * in:  {"args": [s, ...]}, or {"server": s, "group": s, "topic": s, "offsets": {partition: n}} for
 *      Admin.alterShareGroupOffsets, which the command only calls with offsets within the log
 * out: {"code": n, "out": s, "err": s}, or {} when the offsets are altered
 */
public final class ShareGroups {
    /** Stands in for the end of the process. */
    private static final class Exited extends Error {
        final int code;

        Exited(int code) {
            this.code = code;
        }
    }

    private ShareGroups() {
    }

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        Lines.serve(ShareGroups::run);
    }

    private static ObjectNode run(JsonNode question) throws Exception {
        if (question.has("offsets")) {
            return alter(question);
        }
        var args = new ArrayList<String>();
        question.get("args").forEach(arg -> args.add(arg.asText()));
        PrintStream out = System.out;
        PrintStream err = System.err;
        var printed = new ByteArrayOutputStream();
        var complained = new ByteArrayOutputStream();
        int code = 0;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        try {
            ShareGroupCommand.main(args.toArray(String[]::new));
        } catch (Exited end) {
            code = end.code;
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return Lines.JSON.createObjectNode()
            .put("code", code)
            .put("out", printed.toString(StandardCharsets.UTF_8))
            .put("err", complained.toString(StandardCharsets.UTF_8));
    }

    private static ObjectNode alter(JsonNode question) throws Exception {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        question.get("offsets").properties().forEach(one -> offsets.put(
            new TopicPartition(question.get("topic").asText(), Integer.parseInt(one.getKey())), one.getValue().asLong()));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", question.get("server").asText()))) {
            admin.alterShareGroupOffsets(question.get("group").asText(), offsets).all().get();
        }
        return Lines.JSON.createObjectNode();
    }
}
