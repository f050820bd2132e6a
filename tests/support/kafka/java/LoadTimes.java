import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Proxy;
import javax.management.MBeanAttributeInfo;
import javax.management.ObjectName;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.share.metrics.ShareGroupMetrics;

/**
 * What a broker's MBean says after it has loaded share partitions.
 *
 * in:  {"loads": [milliseconds, ...]}
 * out: {"mbean": name, attribute: number, ...}
 */
public final class LoadTimes {
    private static final String NAME = "kafka.server:type=ShareGroupMetrics,name=PartitionLoadTimeMs";
    private static long now = 0;

    public static void main(String[] args) throws Exception {
        Lines.serve(LoadTimes::loaded);
    }

    private static ObjectNode loaded(JsonNode question) throws Exception {
        Time clock = (Time) Proxy.newProxyInstance(
            Time.class.getClassLoader(), new Class<?>[] {Time.class}, (self, method, given) -> now);
        ObjectNode answer = Lines.JSON.createObjectNode().put("mbean", NAME);
        try (var metrics = new ShareGroupMetrics(clock)) {
            for (JsonNode load : question.get("loads")) {
                long begun = now;
                now += load.asLong();
                metrics.partitionLoadTime(begun);
            }
            var beans = ManagementFactory.getPlatformMBeanServer();
            var bean = new ObjectName(NAME);
            for (MBeanAttributeInfo one : beans.getMBeanInfo(bean).getAttributes()) {
                if (beans.getAttribute(bean, one.getName()) instanceof Number number) {
                    answer.put(one.getName(), number.doubleValue());
                }
            }
        }
        return answer;
    }
}
