import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartition;
// Exit is in the one up to 4.3, and in the other from 4.4 on.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

/**
 * Kafka's own commands, run many times in one process, whose start takes longer than most of them.
 *
 * in:  {"command": main class, "args": [s, ...]}, or {"server": s, "group": s, "topic": s, "offsets": {partition: n}}
 *      for Admin.alterShareGroupOffsets, which the command only calls with offsets within the log
 * out: {"code": n, "out": s, "err": s}, or {} when the offsets are altered
 */
public final class Commands {
    /** Stands in for the end of the process; the first that a command asks for counts, for it may catch this. */
    private static final class Exited extends Error { }

    private static ByteArrayOutputStream printed;
    private static ByteArrayOutputStream complained;
    private static ObjectNode ended;

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            end(code);
            throw new Exited();
        });
        Lines.serve(Commands::run);
    }

    private static void end(int code) {
        if (ended == null) {
            ended = Lines.JSON.createObjectNode()
                .put("code", code)
                .put("out", printed.toString(StandardCharsets.UTF_8))
                .put("err", complained.toString(StandardCharsets.UTF_8));
        }
    }

    private static ObjectNode run(JsonNode question) throws Exception {
        if (question.has("offsets")) {
            return alter(question);
        }
        var args = new ArrayList<String>();
        question.get("args").forEach(arg -> args.add(arg.asText()));
        var command = Class.forName(question.get("command").asText()).getMethod("main", String[].class);
        PrintStream out = System.out;
        PrintStream err = System.err;
        printed = new ByteArrayOutputStream();
        complained = new ByteArrayOutputStream();
        ended = null;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        try {
            command.invoke(null, (Object) args.toArray(String[]::new));
            end(0);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Exited)) {
                thrown.getCause().printStackTrace();
            }
            end(1);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return ended;
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
