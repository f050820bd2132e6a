import java.lang.reflect.Field;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.metrics.Metrics;
// LogContext is in the one up to 4.3, and in the other from 4.4 on.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.timeline.SnapshotRegistry;

/** Makes share coordinator shards (one partition of the state topic each) and looks inside them. */
final class Shards {
    static final int DEFAULT_UPDATES_PER_SNAPSHOT = 500;
    static final int DEFAULT_COLD_MS = 300_000;

    static ShareCoordinatorShard make(int updatesPerSnapshot, int coldMs, Time time) {
        Map<String, Object> settings = Map.of(
            "share.coordinator.snapshot.update.records.per.snapshot", updatesPerSnapshot,
            "share.coordinator.cold.partition.snapshot.interval.ms", coldMs);
        var config = new ShareCoordinatorConfig(new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, settings, false));
        var log = new LogContext();
        var builder = new ShareCoordinatorShard.Builder(config);
        builder.withLogContext(log);
        builder.withSnapshotRegistry(new SnapshotRegistry(log));
        builder.withTime(time);
        builder.withCoordinatorMetrics(new ShareCoordinatorMetrics(new Metrics()));
        builder.withTopicPartition(new TopicPartition("__share_group_state", 0));
        return builder.build();
    }

    /** Kafka offers no way to ask for these, so the private field is read. */
    @SuppressWarnings("unchecked")
    static <T> T field(ShareCoordinatorShard shard, String name) throws ReflectiveOperationException {
        Field field = ShareCoordinatorShard.class.getDeclaredField(name);
        field.setAccessible(true);
        return (T) field.get(shard);
    }
}
