"""Where everything lies in the memory of a simulation.

Kernels share one array of 64-bit integers: each further one would cost at every call. A place (a
share partition), a member and a slot are addresses in it, and what follows are the offsets of their
fields. Kernels import all of these names: they are what they are written in. Times are microseconds
from the begin unless they end in ``MS``.
"""

from __future__ import annotations

#: Random numbers drawn together; as in `sharelag.whatif.simulation.streams`.
CHUNK = 4096

# ---- globals ----
# the time, and what it begins with
NOW, NUMBER, BEGINS_MS, STEP, COMPACTIONS = range(5)
# the group's settings
LOCKS, ATTEMPTS, LOCK_MS, THROTTLED, RENEWS = range(5, 10)
# what things cost
NETWORK, FETCH, WRITE, RECORDS_A_FETCH = range(10, 14)
# share partitions, members, brokers
PLACES, PLACES_AT, MEMBERS, BROKERS, BROKERS_AT, BROKERS_FAIL = range(14, 20)
# events: in buckets, and far ones in a heap
NEAR, CURSOR, BUCKET_BITS, BUCKETS_AT, FREE_NODE, EVENTS, EVENTS_AT, EVENTS_ROOM = range(20, 28)
# what is written: of the open write, and why
WRITES, WRITES_AT, WRITES_ROOM, RUNS, RUNS_AT, RUNS_ROOM, OPEN, CAUSE, CAUSE_NUMBER = range(28, 37)
# requests, where they are noted
NOTES_REQUESTS, ASKED, ASKED_AT, ASKED_ROOM = range(37, 41)
# slots, how many each member may need at once, and the one of the fetch at hand
FREE, FREE_SLOTS, SLOTS_EACH, READY_AT, SLOT, TAKEN = range(41, 47)
# what members ask, and what is found in it
FREE_ASK, FREE_ASKS, ASK_ROWS, FOUND = range(47, 51)
# counts by place and member, and who waits where
COUNTS_AT, NODES_AT, GIVEN_BACK, HELD_BY_ALL, DRAINS, DRAINED_AT = range(51, 57)
# random numbers, and those to be drawn
CHANCES_AT, CHUNKS, MISSING_PLACE, MISSING_OF, MISSING_CHUNK = range(57, 62)
# what Python has to do, and what it reads
CALLS, CALLED, SAMPLE_AT, IS_CRAMPED, GLOBALS = range(62, 67)

# ---- a place ----
# offsets of the state
INDEX, START, END, FIRST, LAST, IN_MEMORY, COMPLETE, HELD, IS_BEHIND = range(9)
# where what is available begins
FIND, AVAILABLE, AVAILABLE_FROM, GAP_START, GAP_END = range(9, 14)
# the ring of offsets in flight
WINDOW_AT, MASK, SPARE = range(14, 17)
# locks: those taken in order, and a heap of early ones
STATE_MS, LOCK_NUMBER, LOCK_ROOM, LOCKS_FROM, LOCKS_TO, LOCKS_AT, EARLY_LOCKS, EARLY_LOCKS_AT = (
    range(17, 25)
)
# what a fetch waits for, and the fetches that wait
LOCKED_UNTIL, UNLOCK_DUE, APPEND_DUE, EXPIRY_DUE, HEAD, TAIL = range(25, 31)
# record batches of the log, up to where it was seen and read
BASES_AT, TIMES_AT, READS_AT, FLAGS_AT, BATCHES, AT, READABLE, LOG_START = range(31, 39)
# offsets without a record, and records that go wrong
MISSING, MISSING_AT, POISONS, POISONS_AT = range(39, 43)
# random numbers
CHUNK_AT, FIRST_CHUNK = range(43, 45)
# counts
ARCHIVES, EXPIRED, LOST = range(45, 48)
# the leader, and what it wrote last
LEADER, LEADER_EPOCH, WRITE_EPOCH, LIFE, WRITTEN_START, WRITTEN_COMPLETE, PLACE = range(48, 55)

# ---- an offset in the window of a place; of a batch that is not split, at its first one ----
STATE, COUNT, OWNER, DEADLINE, LOCK, BATCH, BATCH_LAST, SPLIT, OFFSET = range(9)
OFFSET_BITS = 3
# ---- where no batch is between two: its batch is -1, and it ends and begins there ----
HOLE_LAST, HOLE_FIRST = BATCH_LAST, DEADLINE
# ---- a record batch of the log that has no record left, or belongs to an aborted transaction ----
IS_REMOVED, IS_ABORTED = 1, 2
# ---- an offset without a record, and how many compactions there were when it lost it ----
M_OFFSET, M_SINCE, MISS = range(3)
# ---- a lock: the two last are -1 and the first offset of a whole batch ----
LOCK_ENDS, LOCK_NO, LOCK_FIRST, LOCK_LAST, LOCK_SIZE = range(5)

# ---- a member ----
# what it does
IN_POLL, LEAVING, ENDED, HUNG_UNTIL, BUSY, BUSY_SINCE, POLLS, MEMBER_INDEX = range(8)
# as the scenario has it
MAX_POLL, RECORD_LIMIT, WAIT, POLL, COMMIT, RENEW, WORK_AT, IS_FIXED = range(8, 16)
# bounds of what it says of a record
ACCEPTS_ALL, BELOW_ACCEPT, BELOW_RELEASE, BELOW_REJECT = range(16, 20)
# its accidents
HAS_ACCIDENTS, BELOW_CRASH, BELOW_HANG, DRAWN_AT, DRAWN, DRAWS = range(20, 26)
# what it has, and whom it fetches from
TURN, WANTED, WANTED_AT, SESSIONS_AT, CHANGED = range(26, 31)
# slots that its next polls return, and how many acknowledgements its next fetch waits for
BUFFERED, UNANSWERED = range(31, 33)
# the record at hand, of which slot
PENDING, WORKING_ON, ENTRY, RECORD = range(33, 37)
# the part that it works on
PART_ENTRY, PART_LAST, CRASHES = range(37, 40)
# the part that it speaks of
SAYS_ENTRY, SAYS_OFFSET, SAYS_TO_ENTRY, SAYS_TO, MEMBER = range(40, 45)

# ---- a share session of a member with a broker, followed by its places twice: all, and those of
# the fetch at hand in their order; a broker ----
S_MEMBER, S_OPEN, S_EPOCH, S_BROKER_EPOCH, S_PLACES = range(5)
# its fetch: whether the member awaits an answer, and what the broker knows of it
IS_PENDING, FETCHED, FETCHED_AT, FETCH_NUMBER, FETCH_DONE, ANSWER_FROM = range(5, 11)
# when its fetch is over
GIVE_UP_AT, GIVE_UP_NUMBER, GIVE_UP_DUE, SESSION = range(11, 15)
IS_DEAD, BROKER_EPOCH, BROKER = range(3)

# ---- a slot: what was delivered to a member ----
# `COMPACTED`: how many compactions there were when it was answered; `ONE_BY_ONE`: whether its
# acknowledgements are put together record by record; `HOLDS`: whether what is left are records that
# are held after all others.
NEXT_FREE, ENTRIES, COMPACTED, ONE_BY_ONE, HOLDS, SLOT_HEAD = range(6)
E_PLACE, E_FIRST, E_LAST, E_COUNT, E_EPOCH, ENTRY_SIZE = range(6)
# When members acknowledge: with the next poll, after each record, or what led to an error.
BY_POLL, BY_RECORD, BY_ERROR = range(3)
# ---- a record that goes wrong: in so many deliveries, and how long it is held ----
P_OFFSET, P_TYPE, P_ATTEMPTS, P_HOLD, POISON = range(5)
# ---- what a member asks: its acknowledgements in rows, and after them types by offset ----
A_NEXT_FREE, A_OF, A_ROWS, A_TYPES, ASK_HEAD = range(5)
# ---- a row of acknowledgements: a type, or -1 and where the types of its offsets are ----
R_PLACE, R_FIRST, R_LAST, R_TYPE, R_TYPES, R_TAKEN, ROW = range(7)
# ---- counts of a place and a member, as `tally.COUNTS`, and whether there are any ----
DELIVERED, REDELIVERED, ACKED, RELEASED, REJECTED, REFUSED, COUNTED, COUNTS = range(8)

#: By which session a member waits for a place, and who does before and after it.
NODE_OF_PLACE = 3

# ---- rows of what grows: time, number, kind and subject, what else; as long as a lock, since heaps
# of either are one code ----
EVENT = LOCK_SIZE
#: Buckets of near events, a power of 2; a node of their lists, and where it names the next one.
BUCKETS, NODE, NODE_NEXT = 1024, 5, 4
# place, time, time in ms, start offset, delivery complete count, leader epoch, end of its runs
WROTE = 7
# A run of offsets in a write; as far as its time, it is a row of `Tally.finished`.
RUN_PLACE, RUN_FIRST, RUN_LAST, RUN_TIME, RUN_STATE, RUN_COUNT, BY_OFFSET, RUN = range(8)
# time, member, broker, session epoch, what
REQUEST = 5

# ---- kinds of events; a subject below 1 << KIND_BITS ----
KIND_BITS = 40
FETCHES, SAYS, SAYS_AND_WAITS, ANSWERED, RESUMES, WORKED, GIVES_UP, ACKNOWLEDGED_NOW = range(8)
UNLOCKED, APPENDED, LOCKS_END, CRASHED, HUNG, RENEWED, SAYS_FIRST = range(8, 15)
SAID_FIRST, COLLECTED = range(15, 17)
# ---- what Python answers ----
ENDED_RUN, CLOSE, CRASH_NOW, HANG_NOW, GROW, DRAW_WORK, DRAW_CHANCE, DRAW_ACCIDENT = range(8)
# ---- a row of the timeline: as its columns from the log start offset to the age ----
SAMPLE = 8
# ---- why something is written; requests ----
EXPIRES, ACKNOWLEDGES, CLOSES_SESSION = 1, 2, 3
ASKS_FETCH, ASKS_ACKNOWLEDGE, ASKS_CLOSE = 0, 1, 2

# ---- what is wrong with acknowledgements ----
NOT_IN_FLIGHT, BEYOND, NOT_HELD, NOT_RENEWED = 1, 2, 3, 4

NOBODY = -1
# Delivery states and acknowledgement types, as Kafka numbers them.
S_AVAILABLE, S_ACQUIRED, S_ACKNOWLEDGED, S_ARCHIVED = 0, 1, 2, 4
GAP, ACCEPT, RELEASE, REJECT, RENEWAL, HOLD, CRASH, SILENT = 0, 1, 2, 3, 4, 97, 98, 99
#: When what follows an open transaction can be read.
NEVER = (1 << 63) - 1
#: Microseconds after which a client tries again (``reconnect.backoff.ms``).
RECONNECT = 50_000
#: A member that gets nothing at once asks again so long later, where answers take no time: else it
#: would ask for ever at the same moment.
ASKS_AGAIN = 100
#: Who hangs for longer never goes on, in microseconds.
EVER = 1 << 59
