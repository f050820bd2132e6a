import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.ShareGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;

/**
 * The target assignment that a share assignor computes, whose class is the argument. Runs with the classes of Kafka 4.1.1, too.
 *
 * A JSON object a line in, one a line out, until standard input ends; the first line out says that the class is there.
 *
 * in:  {"members": [{"id": s, "rack": s | null, "subscribed": [topic, ...], "current": {topic: [partition, ...]}}, ...],
 *       "topics": {topic: {"id": uuid, "partitions": n | null (deleted), "assignable": [partition, ...],
 *                          "racks": {partition: [rack, ...]}}}}
 * out: {"assignment": [[member, [[topic, [partition, ...]], ...]], ...]}
 *      in the order in which the coordinator would write it: members, their topics, the partitions of a topic
 * out: {"error": s}    what the class, or the loading of it, threw
 *
 * Names, target assignments and members are held as the coordinator holds them (ShareGroupMember,
 * Assignment.fromRecord, TargetAssignmentBuilder), for the order of these sets decides who gets what.
 */
public final class AssignorBridge {
    private static final ObjectMapper JSON = new ObjectMapper();

    private interface Answer {
        ObjectNode get() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // whatever the class prints must not mix with the answers
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        var assignor = new AtomicReference<ShareGroupPartitionAssignor>();
        out.println(answerOrError(() -> {
            assignor.set((ShareGroupPartitionAssignor) Class.forName(args[0]).getDeclaredConstructor().newInstance());
            return JSON.createObjectNode();
        }));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            out.println(answerOrError(() -> assign(assignor.get(), question)));
        }
        System.exit(0); // a class may leave threads behind
    }

    private static ObjectNode answerOrError(Answer answer) {
        try {
            return answer.get();
        } catch (Throwable failure) { // anything can go wrong in code of others
            return JSON.createObjectNode().put("error", failure.toString());
        }
    }

    private record Topic(String name, Uuid id, Integer partitions, Set<Integer> assignable, JsonNode racks) {
        static Topic of(String name, JsonNode topic) {
            Integer partitions = topic.path("partitions").isNull() ? null : topic.get("partitions").asInt();
            Set<Integer> assignable = new HashSet<>(integers(topic.get("assignable")));
            return new Topic(name, Uuid.fromString(topic.get("id").asText()), partitions, assignable, topic.get("racks"));
        }
    }

    private static ObjectNode assign(ShareGroupPartitionAssignor assignor, JsonNode question) {
        Map<String, Topic> topics = new HashMap<>();
        question.get("topics").fields().forEachRemaining(e -> topics.put(e.getKey(), Topic.of(e.getKey(), e.getValue())));
        Map<Uuid, Topic> byId = topics.values().stream().collect(Collectors.toMap(Topic::id, topic -> topic));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<String, Integer> subscribers = new HashMap<>();
        for (JsonNode member : question.get("members")) {
            Set<String> names = new HashSet<>(texts(member.get("subscribed")));
            names.forEach(name -> subscribers.merge(name, 1, Integer::sum));
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.ofNullable(member.get("rack").textValue()), Optional.empty(),
                topicIds(names, topics, byId), current(member, topics)));
        }
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        byId.forEach((id, topic) -> assignable.put(id, topic.assignable()));
        boolean same = subscribers.values().stream().allMatch(count -> count == members.size());
        GroupAssignment target = assignor.assign(
            new GroupSpecImpl(
                Collections.unmodifiableMap(members),
                same ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS,
                Map.of(), // who has a partition now; asked by the assignors of consumer groups only
                Optional.of(assignable)),
            describer(byId));
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode assignment = answer.putArray("assignment");
        Set<String> ids = new LinkedHashSet<>(members.keySet());
        ids.addAll(target.members().keySet()); // strangers, who must not pass unseen
        ids.forEach(id -> {
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

    private static SubscribedTopicDescriber describer(Map<Uuid, Topic> byId) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                Integer partitions = byId.get(topicId).partitions();
                return partitions == null ? -1 : partitions;
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return new HashSet<>(texts(byId.get(topicId).racks().path(String.valueOf(partition))));
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
