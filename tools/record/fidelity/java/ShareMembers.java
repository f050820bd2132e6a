import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a share group whose work and decisions are written in a script: Kafka's own consumer, a thread a member.
 *
 * in:  {"bootstrap", "group", "prefix", "watch", "warmUp": {"group", "topic", "records"},
 *       "members": [{"name", "topics", "implicit", "commit": "poll" | "error" | "record", "config": {...}, "pollUs", "work"}],
 *       "work": [{"TOPIC/PARTITION": [microseconds, by offset]}], "outcomes": {"TOPIC/PARTITION": {"ATTEMPT": "1213..."}}}
 *      then the line "go", and at the end "stop". "work" of a member says which of the lists is its own; without an
 *      entry for an attempt, all of its records are accepted (1); 2 is released, 3 rejected. "watch" is the size
 *      of the whole group where its state is to be watched, else 0. 8 ends the process; 9 is held: when all else of the poll is committed,
 *      for as long as "holds" says, {"TOPIC/PARTITION": {"OFFSET": microseconds}}, and then accepted. Topics are named without the "prefix" that they have.
 * out: {"ready": true} for "go"; {"settled": true} when all members have what they are assigned; for each poll that
 *      brought records {"member", "polled", "us", "committed": [how often, microseconds], "runs": [[topic, partition,
 *      first offset, last offset, delivery count]]}: microseconds since the epoch when poll was called and when it
 *      returned, and what the commits since the poll before took together; {"lag"} of the whole group as Kafka tells
 *      it, null while a partition has none; {"error"}
 */
public final class ShareMembers {
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private static final int HALTS = 8;
    private static final int HELD = 9;
    private static final long EPOCH_NS = System.currentTimeMillis() * 1_000_000 - System.nanoTime();
    private static final Duration POLL = Duration.ofSeconds(10);
    private static final CountDownLatch GO = new CountDownLatch(1);
    private static volatile boolean stopping;

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> fail(failure));
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JsonNode script = Lines.JSON.readTree(in.readLine());
        warmUp(script);
        List<Worker> workers = new ArrayList<>();
        for (JsonNode member : script.get("members")) {
            workers.add(new Worker(script, member));
        }
        workers.forEach(Thread::start);
        say(Lines.JSON.createObjectNode().put("ready", true));
        if (!"go".equals(in.readLine())) {
            System.exit(1);
        }
        GO.countDown();
        if (script.get("watch").asInt() > 0) {
            var watching = new Thread(() -> watch(script), "watch");
            watching.setDaemon(true);
            watching.start();
        }
        in.readLine();
        stopping = true;
        for (Worker worker : workers) {
            worker.consumer.wakeup();
        }
        for (Worker worker : workers) {
            worker.join();
        }
        System.exit(0);
    }

    /** One member of the group. */
    private static final class Worker extends Thread {
        private final String name;
        private final List<String> topics = new ArrayList<>();
        private final String prefix;
        private final boolean implicit;
        private final String commit;
        private final long pollNs;
        private final Map<String, int[]> work = new HashMap<>();
        private final Map<String, Map<String, String>> outcomes = new HashMap<>();
        private final JsonNode holds;
        private final KafkaShareConsumer<byte[], byte[]> consumer;
        private long until;
        private int commits;
        private long commitNs;

        Worker(JsonNode script, JsonNode member) {
            super(member.get("name").asText());
            name = getName();
            prefix = script.get("prefix").asText();
            member.get("topics").forEach(topic -> topics.add(prefix + topic.asText()));
            implicit = member.get("implicit").asBoolean();
            commit = member.get("commit").asText();
            pollNs = member.get("pollUs").asLong() * 1000;
            script.get("work").get(member.get("work").asInt()).properties().forEach(place -> {
                int[] times = new int[place.getValue().size()];
                for (int offset = 0; offset < times.length; offset++) {
                    times[offset] = place.getValue().get(offset).asInt();
                }
                work.put(place.getKey(), times);
            });
            script.get("outcomes").properties().forEach(place -> {
                Map<String, String> attempts = new HashMap<>();
                place.getValue().properties().forEach(one -> attempts.put(one.getKey(), one.getValue().asText()));
                outcomes.put(place.getKey(), attempts);
            });
            holds = script.get("holds");
            consumer = consumer(script, script.get("group").asText(), implicit, member.get("config"));
        }

        @Override
        public void run() {
            try {
                GO.await();
                consumer.subscribe(topics);
                while (!stopping) {
                    long called = System.nanoTime();
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
                    until = System.nanoTime();
                    if (!records.isEmpty()) {
                        tell(called, records);
                        until += pollNs;
                        process(records);
                    }
                }
            } catch (WakeupException stop) {
                // what is left to acknowledge goes with the end of the session
            } catch (InterruptedException impossible) {
                throw new IllegalStateException(impossible);
            }
            consumer.close();
        }

        private void process(ConsumerRecords<byte[], byte[]> records) {
            List<ConsumerRecord<byte[], byte[]>> held = new ArrayList<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                String place = place(record);
                until += work.get(place)[(int) record.offset()] * 1000L;
                int type = type(place, record);
                if (type == HALTS) {
                    sleep();
                    Runtime.getRuntime().halt(1);
                }
                if (type == HELD) {
                    held.add(record);
                    continue;
                }
                if (!implicit) {
                    consumer.acknowledge(record, AcknowledgeType.forId((byte) type));
                }
                if (commit.equals("record") || commit.equals("error") && type != 1) {
                    commit();
                }
            }
            for (ConsumerRecord<byte[], byte[]> record : held) {
                commit(); // all but what it holds
                until += holds.get(place(record)).get(String.valueOf(record.offset())).asLong() * 1000L;
                sleep();
                consumer.acknowledge(record, AcknowledgeType.ACCEPT);
            }
            sleep();
        }

        private void commit() {
            sleep();
            long called = System.nanoTime();
            consumer.commitSync();
            until = System.nanoTime();
            commits++;
            commitNs += until - called;
        }

        private String place(ConsumerRecord<byte[], byte[]> record) {
            return record.topic().substring(prefix.length()) + "/" + record.partition();
        }

        private void tell(long called, ConsumerRecords<byte[], byte[]> records) {
            ObjectNode line = Lines.JSON.createObjectNode().put("member", name);
            line.put("polled", (EPOCH_NS + called) / 1000).put("us", (EPOCH_NS + until) / 1000);
            line.putArray("committed").add(commits).add(commitNs / 1000);
            commits = 0;
            commitNs = 0;
            ArrayNode runs = line.putArray("runs");
            ArrayNode run = null;
            for (ConsumerRecord<byte[], byte[]> record : records) {
                int count = record.deliveryCount().orElseThrow();
                boolean goesOn = run != null && run.get(0).asText().equals(record.topic())
                    && run.get(1).asInt() == record.partition() && run.get(3).asLong() == record.offset() - 1 && run.get(4).asInt() == count;
                if (!goesOn) {
                    run = runs.addArray().add(record.topic()).add(record.partition());
                    run.add(record.offset()).add(record.offset()).add(count);
                }
                run.set(3, record.offset());
            }
            say(line);
        }

        private int type(String place, ConsumerRecord<byte[], byte[]> record) {
            Map<String, String> attempts = outcomes.get(place);
            String types = attempts == null ? null : attempts.get(String.valueOf(record.deliveryCount().orElseThrow()));
            return types == null ? 1 : types.charAt((int) record.offset()) - '0';
        }

        /** Works until the work is done: a sleep that ends late is made up for by the next. */
        private void sleep() {
            long left;
            while ((left = until - System.nanoTime()) > 0) {
                if (left > 150_000) {
                    LockSupport.parkNanos(left - 100_000);
                } else {
                    Thread.onSpinWait();
                }
            }
        }
    }

    /** Tells when the group is settled, and then its lag until the end. */
    private static void watch(JsonNode script) {
        String group = script.get("group").asText();
        Properties config = new Properties();
        config.put("bootstrap.servers", script.get("bootstrap").asText());
        try (var admin = Admin.create(config)) {
            int members = script.get("watch").asInt();
            while (!isSettled(admin.describeShareGroups(List.of(group)).describedGroups().get(group).get(), members)) {
                Thread.sleep(50);
            }
            say(Lines.JSON.createObjectNode().put("settled", true));
            while (!stopping) {
                Thread.sleep(200);
                Long lag = 0L;
                for (var offset : admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
                        .partitionsToOffsetInfo(group).get().values()) {
                    lag = lag == null || offset == null || offset.lag().isEmpty() ? null : Long.valueOf(lag + offset.lag().get());
                }
                say(Lines.JSON.createObjectNode().put("lag", lag));
            }
        } catch (Exception failure) {
            fail(failure);
        }
    }

    private static boolean isSettled(ShareGroupDescription group, int members) {
        return group.groupEpoch() == group.targetAssignmentEpoch() && group.members().size() == members
            && group.members().stream().allMatch(member -> member.memberEpoch() == group.groupEpoch()
                && !member.assignment().topicPartitions().isEmpty());
    }

    /** Lets the JVM load and compile what a consumer needs, so that the first records do not wait for it. */
    private static void warmUp(JsonNode script) {
        JsonNode warm = script.get("warmUp");
        int left = warm.get("records").asInt();
        JsonNode config = Lines.JSON.createObjectNode().put("max.poll.records", "10");
        try (var consumer = consumer(script, warm.get("group").asText(), false, config)) {
            consumer.subscribe(List.of(warm.get("topic").asText()));
            while (left > 0) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    consumer.acknowledge(record);
                    left--;
                }
                if (left % 20 == 0) {
                    consumer.commitSync();
                }
            }
        }
    }

    private static KafkaShareConsumer<byte[], byte[]> consumer(JsonNode script, String group, boolean implicit, JsonNode config) {
        Properties all = new Properties();
        config.properties().forEach(one -> all.put(one.getKey(), one.getValue().asText()));
        all.put("bootstrap.servers", script.get("bootstrap").asText());
        all.put("group.id", group);
        all.put("share.acknowledgement.mode", implicit ? "implicit" : "explicit");
        return new KafkaShareConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void fail(Throwable failure) {
        say(Lines.JSON.createObjectNode().put("error", failure.toString()));
    }

    private static void say(ObjectNode line) {
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }
}
