import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;

/** The surroundings of a shard: a clock moved by hand, and the topics that exist. Topics are named by their ids. */
record FakeCluster(Map<Uuid, Integer> partitionCounts) implements CoordinatorMetadataImage {
    private record Topic(Uuid id, String name, int partitionCount) implements TopicMetadata {
        public List<String> partitionRacks(int partition) { return List.of(); }
    }

    static final class Clock implements Time {
        long now = 1_000_000;

        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1_000_000; }
        public void sleep(long ms) { throw new UnsupportedOperationException("this clock is moved by hand"); }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { sleep(0); }
    }

    public Optional<TopicMetadata> topicMetadata(Uuid id) {
        return Optional.ofNullable(partitionCounts.get(id)).map(count -> new Topic(id, id.toString(), count));
    }

    public Optional<TopicMetadata> topicMetadata(String name) { return topicMetadata(Uuid.fromString(name)); }
    public Set<Uuid> topicIds() { return partitionCounts.keySet(); }
    public Set<String> topicNames() { throw new UnsupportedOperationException("shards ask by topic id"); }
    public CoordinatorMetadataDelta emptyDelta() { throw new UnsupportedOperationException("topics do not change"); }
    public long version() { return 0; }
    public boolean isEmpty() { return partitionCounts.isEmpty(); }
}
