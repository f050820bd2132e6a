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
final class FakeCluster implements CoordinatorMetadataImage {
    private record Topic(Uuid id, int partitionCount) implements TopicMetadata {
        @Override
        public String name() {
            return id.toString();
        }

        @Override
        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }

    static final class Clock implements Time {
        long now = 1_000_000;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException("this clock is moved by hand");
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException("this clock is moved by hand");
        }
    }

    private final Map<Uuid, Integer> partitionCounts;

    FakeCluster(Map<Uuid, Integer> partitionCounts) {
        this.partitionCounts = partitionCounts;
    }

    @Override
    public Optional<TopicMetadata> topicMetadata(Uuid id) {
        return Optional.ofNullable(partitionCounts.get(id)).map(count -> new Topic(id, count));
    }

    @Override
    public Optional<TopicMetadata> topicMetadata(String name) {
        return topicMetadata(Uuid.fromString(name));
    }

    @Override
    public Set<Uuid> topicIds() {
        return partitionCounts.keySet();
    }

    @Override
    public Set<String> topicNames() {
        throw new UnsupportedOperationException("shards ask by topic id");
    }

    @Override
    public CoordinatorMetadataDelta emptyDelta() {
        throw new UnsupportedOperationException("the topics of an oracle do not change");
    }

    @Override
    public long version() {
        return 0;
    }

    @Override
    public boolean isEmpty() {
        return partitionCounts.isEmpty();
    }
}
