"""Where everything lies in the memory of a compiled simulation.

Kernels share one array of 64-bit integers: each further one would cost at every call. A place (a
share partition), a member and a slot are addresses in it, and what follows are the offsets of their
fields, named as in the readable loop. Times are microseconds from the begin unless they end in
``MS``.
"""

from __future__ import annotations

#: Random numbers drawn together; as in `sharelag.whatif.simulation.streams`.
CHUNK = 4096

# ---- globals ----
(
    NOW,
    NUMBER,
    EVENTS,
    WRITES,
    RUNS,
    OPEN,
    ASKED,
    PLACES,
    PLACES_AT,
    MEMBERS,
    NETWORK,
    FETCH,
    WRITE,
    RECORDS_A_FETCH,
    BEGINS_MS,
    LOCKS,
    ATTEMPTS,
    LOCK_MS,
    THROTTLED,
    MASK,
    LOCK_ROOM,
    CAUSE,
    CAUSE_NUMBER,
    GIVEN_BACK,
    STEP,
    DRAINS,
    DRAINED_AT,
    FREE,
    FREE_SLOTS,
    READY_AT,
    TAKEN,
    SLOT,
    ROWS,
    ROWS_AT,
    TYPES_AT,
    COUNTS_AT,
    NODES_AT,
    CHANCES_AT,
    CHUNKS,
    HELD_BY_ALL,
    CALLS,
    CALLED,
    NOTES_REQUESTS,
    MISSING_PLACE,
    MISSING_OF,
    MISSING_CHUNK,
    EVENTS_AT,
    EVENTS_ROOM,
    WRITES_AT,
    WRITES_ROOM,
    RUNS_AT,
    RUNS_ROOM,
    ASKED_AT,
    ASKED_ROOM,
    NEAR,
    CURSOR,
    BUCKET_BITS,
    BUCKETS_AT,
    FREE_NODE,
    SAMPLE_AT,
    SPARE,
    IS_CRAMPED,
    IS_LOST,
    GLOBALS,
) = range(64)

# ---- a place ----
(
    INDEX,
    START,
    END,
    FIRST,
    IN_MEMORY,
    COMPLETE,
    FIND,
    AVAILABLE_FROM,
    STATE_MS,
    LOCK_NUMBER,
    LOCKS_FROM,
    LOCKS_TO,
    LOCKS_AT,
    SPLIT_LOCKS,
    SPLIT_LOCKS_AT,
    WINDOW_AT,
    HELD,
    LOCKED_UNTIL,
    UNLOCK_DUE,
    APPEND_DUE,
    EXPIRY_DUE,
    HEAD,
    TAIL,
    BASES_AT,
    TIMES_AT,
    BATCHES,
    AT,
    READABLE,
    ARCHIVES,
    EXPIRED,
    CHUNK_AT,
    FIRST_CHUNK,
    LOG_START,
    AVAILABLE,
    POISONS,
    POISONS_AT,
    PLACE,
) = range(37)

# ---- an offset in the window of a place; of a batch that is not split, at its first one ----
STATE, COUNT, OWNER, DEADLINE, LOCK, BATCH, BATCH_LAST, SPLIT, OFFSET = range(9)
OFFSET_BITS = 3
# ---- a lock: the two last are -1 and the first offset of a whole batch ----
LOCK_ENDS, LOCK_NO, LOCK_FIRST, LOCK_LAST, LOCK_SIZE = range(5)

# ---- a member ----
(
    ACTIVE,
    LEAVING,
    ENDED,
    MAX_POLL,
    RECORD_LIMIT,
    WAIT,
    POLL,
    COMMIT,
    ACCEPTS_ALL,
    BELOW_ACCEPT,
    BELOW_RELEASE,
    BELOW_REJECT,
    WORK_AT,
    IS_FIXED,
    EPOCH,
    HAS_SESSION,
    WANTED,
    WANTED_AT,
    SESSION,
    SESSION_AT,
    FETCHED,
    FETCHED_AT,
    CHANGED,
    PENDING,
    WORKING_ON,
    ENTRY,
    RECORD,
    FETCH_NUMBER,
    FETCH_DONE,
    ANSWER_FROM,
    POLLS,
    BUSY,
    BUSY_SINCE,
    MEMBER_INDEX,
    GIVE_UP_AT,
    GIVE_UP_NUMBER,
    GIVE_UP_DUE,
    HUNG_UNTIL,
    HAS_ACCIDENTS,
    BELOW_CRASH,
    BELOW_HANG,
    DRAWN_AT,
    DRAWN,
    DRAWS,
    PART_ENTRY,
    PART_LAST,
    CRASHES,
    MEMBER,
) = range(48)

# ---- a slot: what was delivered to a member, or is acknowledged by it ----
(
    NEXT_FREE,
    ENTRIES,
    OF,
    SAYS_BY,
    SAYS_PLACE,
    SAYS_OFFSET,
    SAYS_TYPE,
    SAYS_ENTRY,
    SAYS_TO_ENTRY,
    SAYS_TO,
    IS_LAST,
    SLOT_HEAD,
) = range(12)
# When members acknowledge: what a slot says is all of it, a record, or what led to an error.
BY_POLL, BY_RECORD, BY_ERROR = range(3)
# ---- a record that goes wrong: in so many deliveries ----
P_OFFSET, P_TYPE, P_ATTEMPTS, POISON = range(4)
E_PLACE, E_FIRST, E_LAST, E_COUNT, E_ACCEPTED, ENTRY_SIZE = range(6)
# ---- a row of acknowledgements: a type, or -1 and where the types of its offsets are ----
R_FIRST, R_LAST, R_TYPE, R_TYPES, ROW = range(5)
# ---- counts of a place and a member, as `tally.COUNTS`, and whether there are any ----
DELIVERED, REDELIVERED, ACKED, RELEASED, REJECTED, REFUSED, COUNTED, COUNTS = range(8)

#: Whether a member waits for a place, and who does before and after it.
NODE_OF_PLACE = 3

# ---- rows of what grows: time, number, kind and subject, what else ----
EVENT = 4
#: Buckets of near events, a power of 2; a node of their lists, and where it names the next one.
BUCKETS, NODE, NODE_NEXT = 1024, 5, 4
# place, time, time in ms, start offset, delivery complete count, end of its runs
WROTE = 6
# first, last, state, delivery count, per offset
RUN = 5
# time, member, session epoch, what
REQUEST = 4

# ---- kinds of events; a subject below 1 << KIND_BITS ----
KIND_BITS = 40
(
    FETCHES,
    SAYS,
    SAYS_AND_WAITS,
    ANSWERED,
    RESUMES,
    WORKED,
    GIVES_UP,
    ACKNOWLEDGED_NOW,
    UNLOCKED,
    APPENDED,
    LOCKS_END,
    CRASHED,
    HUNG,
) = range(13)
# ---- what Python answers ----
ENDED_RUN, CLOSE, CRASH_NOW, HANG_NOW, GROW, DRAW_WORK, DRAW_CHANCE, DRAW_ACCIDENT = range(8)
# ---- a row of the timeline: as its columns from the log start offset to the age ----
SAMPLE = 8
# ---- why something is written; requests ----
EXPIRES, ACKNOWLEDGES, CLOSES_SESSION = 1, 2, 3
ASKS_FETCH, ASKS_ACKNOWLEDGE, ASKS_CLOSE = 0, 1, 2

NOBODY = -1
# Delivery states and acknowledgement types, as Kafka numbers them.
S_AVAILABLE, S_ACQUIRED, S_ACKNOWLEDGED, S_ARCHIVED = 0, 1, 2, 4
ACCEPT, RELEASE, REJECT, CRASH, SILENT = 1, 2, 3, 98, 99
#: Who hangs for longer never goes on, in microseconds.
EVER = 1 << 59
