import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Proxy;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.ShareGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;

/**
 * The target assignment that Kafka's only share assignor computes, or an assignor whose class is named as the first
 * argument. Runs with the classes of 4.1.1, too.
 *
 * in:  {"members": [{"id": s, "subscribed": [topic, ...], "current": {topic: [partition, ...]}}, ...],
 *       "topics": {topic: {"id": uuid, "partitions": n | null (deleted), "assignable": [partition, ...] (default all)}}}
 * out: {"assignment": [[member, [[topic, [partition, ...]], ...]], ...]}
 *      in the order in which the coordinator would write it: members, their topics, the partitions of a topic
 *
 * in:  {"capacity": n, "steps": [["put" | "computeIfAbsent" | "remove" | "iterator remove", key], ...]}
 * out: {"keys": [key, ...]}    the order in which a HashMap is walked through after that
 *
 * Names, target assignments and members are held as the coordinator holds them (ShareGroupMember,
 * Assignment.fromRecord, TargetAssignmentBuilder), for the order of these sets decides who gets what.
 */
public final class ShareAssignorOracle {
    private static ShareGroupPartitionAssignor assignor = new SimpleAssignor();

    private record Topic(String name, Uuid id, Integer partitions, Set<Integer> assignable) {
        static Topic of(String name, JsonNode topic) {
            Integer partitions = topic.path("partitions").isNull() ? null : topic.get("partitions").asInt();
            Set<Integer> assignable = topic.has("assignable") ? new HashSet<>(integers(topic.get("assignable"))) : null;
            return new Topic(name, Uuid.fromString(topic.get("id").asText()), partitions, assignable);
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            assignor = (ShareGroupPartitionAssignor) Class.forName(args[0]).getDeclaredConstructor().newInstance();
        }
        Lines.serve(question -> question.has("steps") ? walk(question) : assign(question));
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

    private static ObjectNode assign(JsonNode question) {
        Map<String, Topic> topics = new HashMap<>();
        question.get("topics").fields().forEachRemaining(e -> topics.put(e.getKey(), Topic.of(e.getKey(), e.getValue())));
        Map<Uuid, Topic> byId = topics.values().stream().collect(Collectors.toMap(Topic::id, topic -> topic));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<String, Integer> subscribers = new HashMap<>();
        for (JsonNode member : question.get("members")) {
            Set<String> names = new HashSet<>(texts(member.get("subscribed")));
            names.forEach(name -> subscribers.merge(name, 1, Integer::sum));
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), topicIds(names, topics, byId), current(member, topics)));
        }
        boolean same = subscribers.values().stream().allMatch(count -> count == members.size());
        GroupAssignment target = assignor.assign(
            new GroupSpecImpl(
                Collections.unmodifiableMap(members),
                same ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS,
                Map.of(), // who has a partition now; asked by the assignors of consumer groups only
                Optional.of(assignable(byId))),
            describer(byId));
        ObjectNode answer = Lines.JSON.createObjectNode();
        ArrayNode assignment = answer.putArray("assignment");
        members.keySet().forEach(id -> {
            MemberAssignment assigned = target.members().get(id);
            Map<Uuid, Set<Integer>> partitions = assigned == null ? Map.of() : assigned.partitions();
            ArrayNode shown = assignment.addArray().add(id).addArray();
            partitions.forEach((topic, set) -> {
                ArrayNode numbers = shown.addArray().add(byId.get(topic).name()).addArray();
                set.forEach(numbers::add);
            });
        });
        return answer;
    }

    /** A member's topic ids, looked up by name; names of topics that do not exist are passed over. */
    private static TopicIds topicIds(Set<String> names, Map<String, Topic> topics, Map<Uuid, Topic> byId) {
        // A proxy, because the type of the image that a resolver has to give differs between versions.
        var resolver = (TopicIds.TopicResolver) Proxy.newProxyInstance(
            TopicIds.class.getClassLoader(), new Class<?>[] {TopicIds.TopicResolver.class}, (self, method, args) ->
                switch (method.getName()) {
                    case "id" -> {
                        Topic topic = topics.get((String) args[0]);
                        yield topic == null || topic.partitions() == null ? null : topic.id();
                    }
                    case "name" -> {
                        Topic topic = byId.get((Uuid) args[0]);
                        yield topic == null || topic.partitions() == null ? null : topic.name();
                    }
                    default -> throw new UnsupportedOperationException(method.getName());
                });
        return new TopicIds(names, resolver);
    }

    private static Assignment current(JsonNode member, Map<String, Topic> topics) {
        Map<Uuid, Set<Integer>> partitions = new HashMap<>();
        member.path("current").fields().forEachRemaining(entry ->
            partitions.put(topics.get(entry.getKey()).id(), new HashSet<>(integers(entry.getValue()))));
        return new Assignment(partitions);
    }

    private static Map<Uuid, Set<Integer>> assignable(Map<Uuid, Topic> byId) {
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        byId.forEach((id, topic) -> {
            Set<Integer> all = new HashSet<>();
            for (int partition = 0; topic.partitions() != null && partition < topic.partitions(); partition++) {
                all.add(partition);
            }
            assignable.put(id, topic.assignable() == null ? all : topic.assignable());
        });
        return assignable;
    }

    private static SubscribedTopicDescriber describer(Map<Uuid, Topic> byId) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                Integer partitions = byId.get(topicId).partitions();
                return partitions == null ? -1 : partitions;
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
    }

    private static List<String> texts(JsonNode array) {
        return StreamSupport.stream(array.spliterator(), false).map(JsonNode::asText).toList();
    }

    private static List<Integer> integers(JsonNode array) {
        return StreamSupport.stream(array.spliterator(), false).map(JsonNode::asInt).toList();
    }
}
