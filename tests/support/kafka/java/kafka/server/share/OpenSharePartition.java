package kafka.server.share;

import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Properties;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfigProvider;
import org.apache.kafka.server.share.dlq.NoOpShareGroupDLQManager;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.util.timer.Timer;

/**
 * A share partition without a broker, and what Kafka shows of it to its own tests only. Nobody waits in a purgatory here,
 * and there is no dead-letter queue.
 */
public final class OpenSharePartition {
    public final SharePartition partition;

    public OpenSharePartition(
        String group, TopicIdPartition topicPartition, int leaderEpoch, int maxRecordLocks, int deliveryCountLimit,
        int lockDurationMs, boolean renewEnabled, Timer timer, Time time, Persister persister
    ) {
        partition = new SharePartition(group, topicPartition, leaderEpoch, maxRecordLocks, deliveryCountLimit,
            lockDurationMs, timer, time, persister, null, key -> { }, settings(group, renewEnabled), null, () -> false,
            new NoOpShareGroupDLQManager());
    }

    /** Renewing is a setting of the group only; the other limits are the broker's. */
    private static ShareGroupConfigProvider settings(String group, boolean renewEnabled) {
        var broker = new AbstractConfig(
            Utils.mergeConfigs(List.of(GroupCoordinatorConfig.CONFIG_DEF, ShareGroupConfig.CONFIG_DEF)), Map.of(), false);
        var settings = new GroupConfigManager(new GroupCoordinatorConfig(broker), new ShareGroupConfig(broker));
        if (!renewEnabled) {
            var properties = new Properties();
            properties.setProperty(GroupConfig.SHARE_RENEW_ACKNOWLEDGE_ENABLE_CONFIG, "false");
            settings.updateGroupConfig(group, properties);
        }
        return new ShareGroupConfigProvider(settings);
    }

    public void logStartMoved(long offset) {
        partition.updateCacheAndOffsets(offset);
    }

    public boolean canFetch() {
        return partition.canAcquireRecords();
    }

    public boolean findNextFetchOffset() {
        return partition.findNextFetchOffset();
    }

    public long startOffset() {
        return partition.startOffset();
    }

    public long endOffset() {
        return partition.endOffset();
    }

    public int deliveryCompleteCount() {
        return partition.deliveryCompleteCount();
    }

    public NavigableMap<Long, InFlightBatch> inFlight() {
        return partition.cachedState();
    }
}
