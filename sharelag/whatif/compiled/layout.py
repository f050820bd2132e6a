"""The memory layout of a simulation.

Kernels share one array of 64-bit integers, since each further array would cost at every call. A
place (a share partition), a member and a slot are addresses in it; the constants below are offsets
of their fields. Kernels import all of these names. Times are microseconds from the beginning unless
they end in ``MS``.
"""

#: Random numbers drawn in one go; the same as in `sharelag.whatif.simulation.streams`.
CHUNK = 4096

# ---- globals ----
# virtual time and its parameters
NOW, NUMBER, BEGINS_MS, STEP, COMPACTIONS = range(5)
# settings of the group
LOCKS, ATTEMPTS, LOCK_MS, THROTTLED, RENEWS = range(5, 10)
# costs
NETWORK, FETCH, WRITE, RECORDS_A_FETCH = range(10, 14)
# share partitions, members, brokers
PLACES, PLACES_AT, MEMBERS, BROKERS, BROKERS_AT, BROKERS_FAIL = range(14, 20)
# events: near ones in buckets, distant ones in a heap
NEAR, CURSOR, BUCKET_BITS, BUCKETS_AT, FREE_NODE, EVENTS, EVENTS_AT, EVENTS_ROOM = range(20, 28)
# writes to the share coordinator, the runs of the open one, and its cause
WRITES, WRITES_AT, WRITES_ROOM, RUNS, RUNS_AT, RUNS_ROOM, OPEN, CAUSE, CAUSE_NUMBER = range(28, 37)
# requests, if they are recorded
NOTES_REQUESTS, REQUESTS, REQUESTS_AT, REQUESTS_ROOM = range(37, 41)
# slots, the number each member may need at once, and the slot of the current fetch
FREE, FREE_SLOTS, SLOTS_EACH, READY_AT, SLOT, TAKEN = range(41, 47)
# acknowledgement requests, and the result of a check
FREE_ACK, FREE_ACKS, ACK_ROWS, FOUND = range(47, 51)
# counts by place and member, and waiting fetches
COUNTS_AT, NODES_AT, GIVEN_BACK, HELD_BY_ALL, DRAINS, DRAINED_AT = range(51, 57)
# random numbers, and those that are still to be drawn
CHANCES_AT, CHUNKS, MISSING_PLACE, MISSING_OF, MISSING_CHUNK = range(57, 62)
# the next task of Python, and the sample it reads
CALLS, CALLED, SAMPLE_AT, IS_CRAMPED = range(62, 66)
# the last place in which something was left to finish
LAGGING = 66
# heartbeats: until when they change nothing, of members that know the last of all assignments
INTERVAL, CALM_UNTIL, ASSIGNMENTS, GLOBALS = range(67, 71)

# ---- a place ----
# offsets of the state
INDEX, START, END, FIRST, LAST, IN_MEMORY, COMPLETE, HELD, IS_BEHIND = range(9)
# the first available offset
FIND, AVAILABLE, AVAILABLE_FROM, GAP_START, GAP_END = range(9, 14)
# the ring of offsets in flight
WINDOW_AT, MASK, SPARE = range(14, 17)
# locks: a queue in the order of their ends, and a heap of earlier ones
STATE_MS, LOCK_NUMBER, LOCK_ROOM, LOCKS_FROM, LOCKS_TO, LOCKS_AT, EARLY_LOCKS, EARLY_LOCKS_AT = (
    range(17, 25)
)
# events that a waiting fetch needs, and the list of waiting fetches
LOCKED_UNTIL, UNLOCK_DUE, APPEND_DUE, EXPIRY_DUE, HEAD, TAIL = range(25, 31)
# record batches of the log, and how far it was seen and read
BASES_AT, TIMES_AT, READS_AT, FLAGS_AT, BATCHES, AT, READABLE, LOG_START = range(31, 39)
# offsets without a record, and records that fail
MISSING, MISSING_AT, POISONS, POISONS_AT = range(39, 43)
# random numbers
CHUNK_AT, FIRST_CHUNK = range(43, 45)
# counts
ARCHIVES, EXPIRED, LOST = range(45, 48)
# the leader, and its last write
LEADER, LEADER_EPOCH, WRITE_EPOCH, LIFE, WRITTEN_START, WRITTEN_COMPLETE = range(48, 54)
# when acknowledgements can be written at the earliest, and whether they are retried until then
WRITES_FROM, RETRIES, PLACE = range(54, 57)

# ---- an offset in the window of a place; for a batch that is not split, its first offset ----
STATE, COUNT, OWNER, DEADLINE, LOCK, BATCH, BATCH_LAST, SPLIT, OFFSET = range(9)
OFFSET_BITS = 3
# ---- a hole between two batches: its batch is -1, and these are its first and last offset ----
HOLE_LAST, HOLE_FIRST = BATCH_LAST, DEADLINE
# ---- flags of a record batch: all records removed, or only its transaction aborted ----
IS_REMOVED, IS_ABORTED = 1, 2
# ---- an offset without a record, and the number of compactions when it lost the record ----
M_OFFSET, M_SINCE, MISS = range(3)
# ---- a lock; a lock of a whole batch has -1 as its last offset ----
LOCK_ENDS, LOCK_NO, LOCK_FIRST, LOCK_LAST, LOCK_SIZE = range(5)

# ---- a member ----
# its current state
IN_POLL, LEAVING, ENDED, HUNG_UNTIL, BUSY, BUSY_SINCE, POLLS, MEMBER_INDEX = range(8)
# settings from the scenario
MAX_POLL, RECORD_LIMIT, WAIT, POLL, COMMIT, RENEW, WORK_AT, IS_FIXED = range(8, 16)
# upper bounds of random numbers, by acknowledgement type
ACCEPTS_ALL, BELOW_ACCEPT, BELOW_RELEASE, BELOW_REJECT = range(16, 20)
# its accidents
HAS_ACCIDENTS, BELOW_CRASH, BELOW_HANG, DRAWN_AT, DRAWN, DRAWS = range(20, 26)
# its assignment and share sessions
TURN, ASSIGNED, ASSIGNED_AT, SESSIONS_AT, CHANGED = range(26, 31)
# slots for its next polls, and acknowledgements that its next fetch waits for
BUFFERED, UNANSWERED = range(31, 33)
# the current record and its slot
PENDING, WORKING_ON, ENTRY, RECORD = range(33, 37)
# the current part of the slot
PART_ENTRY, PART_LAST, CRASHES = range(37, 40)
# when its poll was called, how long that waits, and until when it fetches nothing, or 0
POLLED, POLL_WAIT, IDLE_UNTIL = range(40, 43)
# its heartbeats: how many were sent, when the last one arrived, and which assignment it knows
SUBSCRIBES, HEARTBEATS, MUTED_UNTIL, HEARD, KNOWS, MEMBER = range(43, 49)

# ---- a share session of a member with a broker, followed by its places twice: all of them, and
# those of the current fetch in order; a broker ----
S_MEMBER, S_OPEN, S_EPOCH, S_BROKER_EPOCH, S_PLACES = range(5)
# its fetch, as the member and the broker know it
IS_PENDING, FETCHED, FETCHED_AT, FETCH_NUMBER, FETCH_DONE, ANSWER_FROM = range(5, 11)
# the timeout of its fetch
TIMEOUT_AT, TIMEOUT_NUMBER, TIMEOUT_DUE, SESSION = range(11, 15)
IS_DEAD, BROKER_EPOCH, BROKER = range(3)

# ---- a slot: records delivered to a member ----
# `COMPACTED`: the number of compactions when it was answered; `ONE_BY_ONE`: whether it is
# acknowledged record by record; `HOLDS`: whether only records that are held to the end are left.
NEXT_FREE, ENTRIES, COMPACTED, ONE_BY_ONE, HOLDS = range(5)
# the part to acknowledge
ACK_ENTRY, ACK_OFFSET, ACK_TO_ENTRY, ACK_TO, SLOT_HEAD = range(5, 10)
E_PLACE, E_FIRST, E_LAST, E_COUNT, E_EPOCH, ENTRY_SIZE = range(6)
# When members acknowledge: with the next poll, after each record, or after an error.
BY_POLL, BY_RECORD, BY_ERROR = range(3)
# ---- a record that fails: how, in how many deliveries, and how long it is held ----
P_OFFSET, P_TYPE, P_ATTEMPTS, P_HOLD, POISON = range(5)
# ---- an acknowledgement request: its rows, followed by types by offset ----
A_NEXT_FREE, A_OF, A_ROWS, A_TYPES, ACK_HEAD = range(5)
# ---- a row of acknowledgements: a type, or -1 and the address of the types by offset ----
R_PLACE, R_FIRST, R_LAST, R_TYPE, R_TYPES, R_TAKEN, ROW = range(7)
# ---- counts of a place and a member, as in `tally.COUNTS`, and whether any is set ----
DELIVERED, REDELIVERED, ACKED, RELEASED, REJECTED, REFUSED, COUNTED, COUNTS = range(8)

#: A waiting fetch of a member and place: its session, and the members before and after it.
NODE_OF_PLACE = 3

# ---- rows of growing tables. An event: time, number, kind and subject, argument. As long as a
# lock, since the heaps of both share their code ----
EVENT = LOCK_SIZE
#: Buckets of near events, a power of 2; a node of their lists, and the field of the next node.
BUCKETS, NODE, NODE_NEXT = 1024, 5, 4
# place, time, time in ms, start offset, delivery complete count, leader epoch, end of its runs
WRITE_ROW = 7
# A run of offsets in a write; its fields up to the time are a row of `Tally.finished`.
RUN_PLACE, RUN_FIRST, RUN_LAST, RUN_TIME, RUN_STATE, RUN_COUNT, BY_OFFSET, RUN = range(8)
# time, member, broker, session epoch, what
REQUEST = 5

# ---- kinds of events; the subject is below 1 << KIND_BITS ----
KIND_BITS = 40
FETCH_ARRIVES, ACKS_ARRIVE, ACKS_BEFORE_WORK, ANSWERED, WORK_RESUMES, PART_DONE = range(6)
WAIT_ENDS, ACKS_WRITTEN, UNLOCKED, APPENDED, LOCKS_END, CRASHED, HUNG, RENEWAL_DUE = range(6, 14)
ACKS_BEFORE_POLL, POLL_RESUMES, COLLECTED, POLL_ENDS = range(14, 18)
HEARTBEAT_DUE, HEARTBEAT_ARRIVES = range(18, 20)
# ---- codes for Python ----
ENDED_RUN, CLOSE, CRASH_NOW, HANG_NOW, HEARTBEAT_NOW, GROW = range(6)
DRAW_WORK, DRAW_CHANCE, DRAW_ACCIDENT = range(6, 9)
# ---- a row of the timeline: its columns from the log start offset to the age ----
SAMPLE = 8
# ---- causes of writes; kinds of requests ----
EXPIRY, ACKNOWLEDGEMENT, SESSION_CLOSE = 1, 2, 3
FETCH_REQUEST, ACKNOWLEDGE_REQUEST, CLOSE_REQUEST = 0, 1, 2

# ---- errors of acknowledgements ----
NOT_IN_FLIGHT, BEYOND, NOT_HELD, NOT_RENEWED = 1, 2, 3, 4

NOBODY = -1
# Delivery states and acknowledgement types, as Kafka numbers them.
S_AVAILABLE, S_ACQUIRED, S_ACKNOWLEDGED, S_ARCHIVED = 0, 1, 2, 4
GAP, ACCEPT, RELEASE, REJECT, RENEWAL, HOLD, CRASH, SILENT = 0, 1, 2, 3, 4, 97, 98, 99
#: The time at which records behind an open transaction become readable.
NEVER = (1 << 63) - 1
#: Microseconds after which a client retries (``reconnect.backoff.ms``).
RECONNECT = 50_000
#: Microseconds until a leader first writes again to a share coordinator that is gone, and at most:
#: each time twice as many (``PersisterStateManager`` doubles ``REQUEST_BACKOFF_MS``, a second,
#: before the first, too; without its jitter).
REWRITE, REWRITE_MOST = 2_000_000, 30_000_000
#: Microseconds until a member fetches again after an empty answer, if requests take no time:
#: otherwise it would fetch forever at the same moment.
REFETCH_DELAY = 100
#: A member that hangs for longer, in microseconds, never resumes.
EVER = 1 << 59
