import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Properties;
import org.apache.kafka.tools.consumer.ConsoleShareConsumerOptions;
import org.apache.kafka.tools.consumer.group.ShareGroupCommandOptions;

/**
 * Whether Kafka's tools refuse a command line, before they reach any cluster.
 *
 * in:  {"tool": "groups" | "console", "args": [s, ...]}
 * out: {"refused": b, "group": the group of a console consumer}
 */
public final class CommandLines {
    /** Stands in for the end of the process. */
    private static final class Exited extends Error {
        final int code;

        Exited(int code) {
            this.code = code;
        }
    }

    public static void main(String[] args) throws Exception {
        Class<?> exit = exit();
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object end = Proxy.newProxyInstance(
                procedure.getClassLoader(), new Class<?>[] {procedure}, (proxy, method, given) -> {
                    throw new Exited((int) given[0]);
                });
        exit.getMethod("setExitProcedure", procedure).invoke(null, end);
        Lines.serve(CommandLines::check);
    }

    /** It is internal from 4.4 on. */
    private static Class<?> exit() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.kafka.common.utils.Exit");
        }
    }

    private static ObjectNode check(JsonNode question) throws Exception {
        var words = new ArrayList<String>();
        question.get("args").forEach(arg -> words.add(arg.asText()));
        String[] args = words.toArray(String[]::new);
        ObjectNode answer = Lines.JSON.createObjectNode();
        PrintStream out = System.out;
        PrintStream err = System.err;
        System.setOut(new PrintStream(new ByteArrayOutputStream()));
        System.setErr(new PrintStream(new ByteArrayOutputStream()));
        boolean refused = false;
        try {
            if (question.get("tool").asText().equals("groups")) {
                new ShareGroupCommandOptions(args).checkArgs();
            } else {
                var options = new ConsoleShareConsumerOptions(args);
                var properties = ConsoleShareConsumerOptions.class.getDeclaredMethod("consumerProps");
                properties.setAccessible(true);
                answer.put("group", (String) ((Properties) properties.invoke(options)).get("group.id"));
            }
        } catch (Exited end) {
            refused = end.code != 0;
        } catch (joptsimple.OptionException wrong) {
            refused = true;
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return answer.put("refused", refused);
    }
}
