import org.apache.kafka.common.protocol.Errors;

/**
 * Kafka's errors by name.
 *
 * in:  {}
 * out: {name: code, ...}
 */
public final class ErrorCodes {
    public static void main(String[] args) throws Exception {
        Lines.serve(question -> {
            var codes = Lines.JSON.createObjectNode();
            for (Errors error : Errors.values()) {
                codes.put(error.name(), error.code());
            }
            return codes;
        });
    }
}
