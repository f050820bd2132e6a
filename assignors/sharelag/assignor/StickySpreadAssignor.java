package sharelag.assignor;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.ShareGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;

/**
 * Spreads the members of a share group evenly over partitions, two to each, and takes away little.
 *
 * <p>The same as {@code sticky-spread} of sharelag, which says what each step is for. A partition of {@code n}
 * members is a load of {@code 1/n} to each of them.
 * <ol>
 * <li>Keep every pair of member and partition that is still allowed.
 * <li>Cover: give each partition with fewer than two members the subscribers with the least load.
 * <li>Employ: let each idle member join the partition with the fewest members.
 * <li>Join, as often as it helps: a member joins a partition of one with a larger load.
 * <li>Move, for at most a tenth of all pairs: a member may also take a partition over, or leave another for it.
 * </ol>
 * What could be chosen in several ways is chosen by the order of topic ids, partitions and member ids, so the same
 * group gets the same answer on every broker.
 *
 * <p>Broker setting: {@code group.share.assignors=sharelag.assignor.StickySpreadAssignor}, with this jar among the
 * broker's libraries. It keeps no state and needs no settings of its own.
 */
public final class StickySpreadAssignor implements ShareGroupPartitionAssignor {
    /** A change helps if it relieves a member by this part of its load on one partition, and raises nobody near it. */
    private static final double HYSTERESIS = 0.1;

    /** Members that each partition has at least, as far as there are subscribers. */
    private static final int SHARING = 2;

    /** How many partitions more than {@code ceil(SHARING * partitions / members)} a member may come to have. */
    private static final int EXTRA = 1;

    /** Sums that are equal but for their last digits are equal. */
    private static final double DIGITS = 1e-9;

    @Override
    public String name() {
        return "sticky-spread";
    }

    @Override
    public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) throws PartitionAssignorException {
        Pairs pairs = new Pairs(group, topics);
        pairs.cover();
        pairs.employ();
        pairs.evenOut(false, Integer.MAX_VALUE);
        pairs.evenOut(true, Math.max(1, pairs.count() / 10));
        return pairs.assignment();
    }

    /** A partition that members can be assigned. */
    private record Place(Uuid topic, int partition) { }

    /** A pair by the numbers of its member and its place. */
    private record Pair(int member, int place) implements Comparable<Pair> {
        private static final Comparator<Pair> ORDER =
            Comparator.comparingInt(Pair::member).thenComparingInt(Pair::place);

        @Override
        public int compareTo(Pair other) {
            return ORDER.compare(this, other);
        }
    }

    /** A pair to add, and one to drop for it, or null. Where all else is equal, those that drop none come first. */
    private record Change(Pair add, Pair drop) implements Comparable<Change> {
        private static final Comparator<Change> ORDER = Comparator.<Change, Boolean>comparing(change -> change.drop != null)
            .thenComparing(Change::add)
            .thenComparing(Change::drop, Comparator.nullsFirst(Comparator.naturalOrder()));

        /** The places whose members change, in order, since the last digits of sums depend on it. */
        int[] places() {
            if (drop == null || drop.place == add.place) {
                return new int[] {add.place};
            }
            return new int[] {Math.min(add.place, drop.place), Math.max(add.place, drop.place)};
        }

        @Override
        public int compareTo(Change other) {
            return ORDER.compare(this, other);
        }
    }

    /** Something to choose, and the largest load that it leaves: the smaller, the better. */
    private record Choice<T extends Comparable<T>>(double largest, T chosen) {
        boolean isBetterThan(Choice<T> other) {
            int order = other == null ? -1 : Double.compare(largest, other.largest);
            return order < 0 || order == 0 && chosen.compareTo(other.chosen) < 0;
        }
    }

    /** Pairs of member and place, only those that subscriptions allow, and the loads that they make. */
    private static final class Pairs {
        private final List<String> members;
        private final List<Place> places = new ArrayList<>();
        private final List<BitSet> subscribers = new ArrayList<>(); // by place
        private final BitSet[] placesOf;
        private final BitSet[] membersOf;
        private final int[] counts; // members by place
        private final double[] load; // by member
        private final NavigableSet<Integer> byLoad;
        private int pairs = 0;

        /** Begin with what the members have and may keep. */
        Pairs(GroupSpec group, SubscribedTopicDescriber topics) {
            members = group.memberIds().stream().sorted().toList();
            Map<Uuid, BitSet> byTopic = new TreeMap<>();
            for (int member = 0; member < members.size(); member++) {
                for (Uuid topic : group.memberSubscription(members.get(member)).subscribedTopicIds()) {
                    byTopic.computeIfAbsent(topic, first -> new BitSet()).set(member);
                }
            }
            byTopic.forEach((topic, subscribed) -> {
                int partitions = topics.numPartitions(topic);
                if (partitions < 0) {
                    throw new PartitionAssignorException("members subscribe to topic " + topic + ", which does not exist");
                }
                for (int partition = 0; partition < partitions; partition++) {
                    if (group.isPartitionAssignable(topic, partition)) {
                        places.add(new Place(topic, partition));
                        subscribers.add(subscribed);
                    }
                }
            });
            placesOf = sets(members.size());
            membersOf = sets(places.size());
            counts = new int[places.size()];
            load = new double[members.size()];
            keep(group);
            byLoad = new TreeSet<>(
                Comparator.<Integer>comparingDouble(member -> load[member]).thenComparing(Comparator.naturalOrder()));
            for (int member = 0; member < load.length; member++) {
                load[member] = loadOf(member);
                byLoad.add(member);
            }
        }

        private static BitSet[] sets(int count) {
            BitSet[] sets = new BitSet[count];
            for (int number = 0; number < count; number++) {
                sets[number] = new BitSet();
            }
            return sets;
        }

        private void keep(GroupSpec group) {
            Map<Place, Integer> numbers = new HashMap<>();
            for (int place = 0; place < counts.length; place++) {
                numbers.put(places.get(place), place);
            }
            for (int member = 0; member < load.length; member++) {
                for (var assigned : group.memberAssignment(members.get(member)).partitions().entrySet()) {
                    for (int partition : assigned.getValue()) {
                        Integer place = numbers.get(new Place(assigned.getKey(), partition));
                        if (place != null && subscribers.get(place).get(member)) {
                            put(new Pair(member, place));
                        }
                    }
                }
            }
        }

        int count() {
            return pairs;
        }

        GroupAssignment assignment() {
            Map<String, MemberAssignment> assigned = new HashMap<>();
            for (int member = 0; member < load.length; member++) {
                Map<Uuid, Set<Integer>> partitions = new HashMap<>();
                placesOf[member].stream().mapToObj(places::get).forEach(place ->
                    partitions.computeIfAbsent(place.topic, first -> new TreeSet<>()).add(place.partition));
                assigned.put(members.get(member), () -> partitions);
            }
            return new GroupAssignment(assigned);
        }

        /** Give each place as many members as it is to have, or all its subscribers where they are fewer. */
        void cover() {
            for (int place = 0; place < counts.length; place++) {
                int wanted = Math.min(SHARING, subscribers.get(place).cardinality());
                while (counts[place] < wanted) {
                    apply(new Change(new Pair(lightest(place, Integer.MAX_VALUE), place), null));
                }
            }
        }

        /** Let idle members join where the fewest are. */
        void employ() {
            for (int member = 0; member < load.length; member++) {
                if (placesOf[member].isEmpty()) {
                    int fewest = -1;
                    for (int place = 0; place < counts.length; place++) {
                        if (may(member, place) && (fewest < 0 || counts[place] < counts[fewest])) {
                            fewest = place;
                        }
                    }
                    if (fewest >= 0) {
                        apply(new Change(new Pair(member, fewest), null));
                    }
                }
            }
        }

        /** Make changes that help; with {@code moves} also those that take a place from a member. */
        void evenOut(boolean moves, int budget) {
            int each = Math.max(load.length, 1);
            int most = (SHARING * counts.length + each - 1) / each + EXTRA;
            // Who could not be relieved is not tried again in this call, or a large group would take long.
            BitSet hopeless = new BitSet();
            for (int made = 0; made < budget && hopeless.cardinality() < load.length; ) {
                int heavy = first(byLoad.descendingSet(), hopeless);
                Change change = best(heavy, most, moves);
                if (change == null) {
                    hopeless.set(heavy);
                } else {
                    apply(change);
                    made++;
                }
            }
        }

        private static int first(Collection<Integer> members, BitSet without) {
            for (int member : members) {
                if (!without.get(member)) {
                    return member;
                }
            }
            return -1;
        }

        /** The change that helps a member and leaves the smallest loads; null if there is none. */
        private Change best(int heavy, int most, boolean moves) {
            Choice<Change> best = null;
            int[] spare = moves ? spare() : new int[0];
            BitSet has = placesOf[heavy];
            for (int place = has.nextSetBit(0); place >= 0; place = has.nextSetBit(place + 1)) {
                int joins = lightest(place, most);
                if (joins >= 0) {
                    best = better(best, heavy, new Change(new Pair(joins, place), null));
                    if (moves) {
                        best = better(best, heavy, new Change(new Pair(joins, place), new Pair(heavy, place)));
                    }
                }
                Choice<Pair> spared = null;
                for (int left : spare) {
                    Choice<Pair> other = spared(place, left);
                    spared = other != null && other.isBetterThan(spared) ? other : spared;
                }
                if (spared != null) {
                    best = better(best, heavy, new Change(new Pair(spared.chosen.member, place), spared.chosen));
                }
            }
            return best == null ? null : best.chosen;
        }

        /** Places that have members to spare. */
        private int[] spare() {
            BitSet found = new BitSet();
            for (int place = 0; place < counts.length; place++) {
                found.set(place, counts[place] > SHARING);
            }
            return found.stream().toArray();
        }

        /** The lightest member that may join a place and then has no more than so many; -1 if there is none. */
        private int lightest(int place, int most) {
            for (int member : byLoad) {
                if (may(member, place) && placesOf[member].cardinality() < most) {
                    return member;
                }
            }
            return -1;
        }

        /** Who of a place could best leave it for another, and the larger load then; null if nobody may. */
        private Choice<Pair> spared(int place, int left) {
            int lightest = -1;
            int heaviest = -1;
            BitSet all = membersOf[left];
            for (int member = all.nextSetBit(0); member >= 0; member = all.nextSetBit(member + 1)) {
                if (may(member, place) && (lightest < 0 || load[member] < load[lightest])) {
                    lightest = member;
                }
                if (heaviest < 0 || load[member] >= load[heaviest]) {
                    heaviest = member;
                }
            }
            if (lightest < 0) {
                return null;
            }
            double share = 1.0 / (counts[place] + 1);
            // The heaviest of those that stay, unless it is the one that leaves.
            double stays = load[heaviest] + 1.0 / counts[left] / (counts[left] - 1);
            double moved = load[lightest] - 1.0 / counts[left] + share;
            return new Choice<>(Math.max(moved, stays), new Pair(lightest, left));
        }

        private boolean may(int member, int place) {
            return subscribers.get(place).get(member) && !membersOf[place].get(member);
        }

        private void put(Pair pair) {
            placesOf[pair.member].set(pair.place);
            membersOf[pair.place].set(pair.member);
            counts[pair.place]++;
            pairs++;
        }

        private void remove(Pair pair) {
            placesOf[pair.member].clear(pair.place);
            membersOf[pair.place].clear(pair.member);
            counts[pair.place]--;
            pairs--;
        }

        private void apply(Change change) {
            BitSet touched = new BitSet();
            touched.set(change.add.member);
            for (int place : change.places()) {
                touched.or(membersOf[place]);
            }
            if (change.drop != null) {
                remove(change.drop);
            }
            put(change.add);
            touched.stream().forEach(member -> {
                byLoad.remove(member);
                load[member] = loadOf(member);
                byLoad.add(member);
            });
        }

        private double loadOf(int member) {
            return sum(placesOf[member].stream().mapToDouble(place -> 1.0 / counts[place]).toArray());
        }

        /** The better of a choice and a change, if that helps a member. */
        private Choice<Change> better(Choice<Change> best, int heavy, Change change) {
            BitSet touched = new BitSet();
            Map<Integer, Double> after = new HashMap<>();
            for (int place : change.places()) {
                touched.clear();
                touched.or(membersOf[place]);
                boolean adds = change.add.place == place;
                boolean drops = change.drop != null && change.drop.place == place;
                if (adds) {
                    touched.set(change.add.member);
                }
                double then = 1.0 / (counts[place] + (adds ? 1 : 0) - (drops ? 1 : 0));
                double before = 1.0 / counts[place];
                touched.stream().forEach(member -> {
                    boolean has = membersOf[place].get(member);
                    boolean keeps = adds && member == change.add.member || has && !(drops && member == change.drop.member);
                    // One difference: who keeps the same part of a place keeps its load to the last digit.
                    double more = (keeps ? then : 0) - (has ? before : 0);
                    after.merge(member, load[member] + more, (known, first) -> known + more);
                });
            }
            double raised = 0;
            for (var entry : after.entrySet()) {
                if (entry.getValue() > load[entry.getKey()]) {
                    raised = Math.max(raised, entry.getValue());
                }
            }
            double relief = load[heavy] * HYSTERESIS / Math.max(placesOf[heavy].cardinality(), 1);
            if (after.get(heavy) > load[heavy] - relief * (1 - DIGITS) || raised > load[heavy] * (1 - HYSTERESIS)) {
                return best;
            }
            Choice<Change> found = new Choice<>(Math.max(after.get(heavy), raised), change);
            return found.isBetterThan(best) ? found : best;
        }
    }

    /** The sum, rounded once: it does not depend on the order (Shewchuk 1997, Python's {@code math.fsum}). */
    private static double sum(double[] values) {
        double[] partials = new double[values.length];
        int count = 0;
        for (double value : values) {
            double high = value;
            int kept = 0;
            for (int at = 0; at < count; at++) {
                boolean isLarger = Math.abs(high) >= Math.abs(partials[at]);
                double larger = isLarger ? high : partials[at];
                double smaller = isLarger ? partials[at] : high;
                high = larger + smaller;
                double low = smaller - (high - larger);
                if (low != 0) {
                    partials[kept++] = low;
                }
            }
            partials[kept++] = high;
            count = kept;
        }
        double total = 0;
        double low = 0;
        while (count > 0 && low == 0) {
            double before = total;
            double next = partials[--count];
            total = before + next;
            low = next - (total - before);
        }
        // Half a digit is rounded to even; what is left below says to which side it lies.
        if (count > 0 && low != 0 && low > 0 == partials[count - 1] > 0) {
            double twice = 2 * low;
            double up = total + twice;
            total = twice == up - total ? up : total;
        }
        return total;
    }
}
