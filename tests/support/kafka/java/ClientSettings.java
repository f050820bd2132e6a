import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClientConfig;

/**
 * Client properties as Kafka's commands see them, with values of config.providers.
 *
 * in:  {"properties": {name: value, ...}}
 * out: {name: value, ...}
 */
public final class ClientSettings {
    public static void main(String[] args) throws Exception {
        Lines.serve(question -> {
            Map<String, Object> given = new HashMap<>();
            question.get("properties").fields().forEachRemaining(
                one -> given.put(one.getKey(), one.getValue().asText()));
            var answer = Lines.JSON.createObjectNode();
            new AdminClientConfig(given).originals().forEach((name, value) -> answer.put(name, value.toString()));
            return answer;
        });
    }
}
