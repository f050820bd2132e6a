import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;

/**
 * The order in which a HashMap is walked through.
 *
 * in:  {"capacity": n, "steps": [["put" | "computeIfAbsent" | "remove" | "iterator remove", key], ...]}
 * out: {"keys": [key, ...]}
 */
public final class MapOracle {
    public static void main(String[] args) throws Exception {
        Lines.serve(MapOracle::walk);
    }

    private static ObjectNode walk(JsonNode question) {
        Map<Object, Boolean> map = new HashMap<>(question.get("capacity").asInt());
        for (JsonNode step : question.get("steps")) {
            Object key = step.get(1).isInt() ? (Object) step.get(1).asInt() : step.get(1).asText();
            switch (step.get(0).asText()) {
                case "put" -> map.put(key, true);
                case "computeIfAbsent" -> map.computeIfAbsent(key, absent -> true);
                case "remove" -> map.remove(key);
                case "iterator remove" -> map.keySet().removeIf(key::equals); // by Iterator.remove
                default -> throw new IllegalArgumentException("a step cannot be " + step.get(0));
            }
        }
        ObjectNode answer = Lines.JSON.createObjectNode();
        ArrayNode keys = answer.putArray("keys");
        map.keySet().forEach(key -> keys.addPOJO(key));
        return answer;
    }
}
