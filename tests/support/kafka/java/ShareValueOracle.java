import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.share.generated.ShareSnapshotValue;
import org.apache.kafka.coordinator.share.generated.ShareSnapshotValueJsonConverter;
import org.apache.kafka.coordinator.share.generated.ShareUpdateValue;
import org.apache.kafka.coordinator.share.generated.ShareUpdateValueJsonConverter;

/**
 * How the share coordinator's generated classes of any version read a value.
 *
 * in:  {"type": 0 | 1, "v": hex}
 * out: {"value": {...}, "v2": hex, "left": n}   v2 is the value as Kafka would write it again
 */
public final class ShareValueOracle {
    public static void main(String[] args) throws Exception {
        Lines.serve(ShareValueOracle::read);
    }

    private static ObjectNode read(JsonNode question) {
        ByteBuffer bytes = Lines.bytes(question.get("v"));
        short version = bytes.getShort();
        ByteBufferAccessor readable = new ByteBufferAccessor(bytes);
        ObjectNode answer = Lines.JSON.createObjectNode();
        byte[] again;
        if (question.get("type").asInt() == 0) {
            ShareSnapshotValue value = new ShareSnapshotValue(readable, version);
            answer.set("value", ShareSnapshotValueJsonConverter.write(value, version));
            again = MessageUtil.toVersionPrefixedBytes(version, value);
        } else {
            ShareUpdateValue value = new ShareUpdateValue(readable, version);
            answer.set("value", ShareUpdateValueJsonConverter.write(value, version));
            again = MessageUtil.toVersionPrefixedBytes(version, value);
        }
        return answer.put("v2", HexFormat.of().formatHex(again)).put("left", bytes.remaining());
    }
}
