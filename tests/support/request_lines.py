"""Lines of ``kafka.request.logger``, made as a broker writes them, of requests of one's own."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from sharelag.inputs.files.request_log import RequestLog
from sharelag.workbench.side_inputs import Requests
from tests.support.command import ask

#: A topic id as Kafka prints it.
TOPIC = "dT2wXpNqQqOaoMFN5C6PcA"
KEYS = {
    "ListGroups": 16,
    "DeleteGroups": 42,
    "ShareGroupHeartbeat": 76,
    "ShareGroupDescribe": 77,
    "ShareFetch": 78,
    "ShareAcknowledge": 79,
    "InitializeShareGroupState": 83,
    "ReadShareGroupState": 84,
    "WriteShareGroupState": 85,
    "DeleteShareGroupState": 86,
    "ReadShareGroupStateSummary": 87,
    "DescribeShareGroupOffsets": 90,
    "AlterShareGroupOffsets": 91,
    "DeleteShareGroupOffsets": 92,
}


def line(
    api: str, at: int, request: dict[str, Any], response: dict[str, Any], *, version: int = 1
) -> str:
    """One completed request; ``at`` is in milliseconds of the first minute of 2026-11-23."""
    header = {"requestApiKey": KEYS[api], "requestApiVersion": version, "clientId": "client"}
    said = {
        "isForwarded": False,
        "requestHeader": header,
        "request": request,
        "response": {"throttleTimeMs": 0} | response,
        "connection": "127.0.0.1:9092-127.0.0.1:40000-0-1",
        "totalTimeMs": 2.0,
        "requestQueueTimeMs": 0.5,
        "responseQueueTimeMs": 0.25,
        "sendTimeMs": 0.25,
    }
    when = f"2026-11-23 00:00:{at // 1000:02},{at % 1000:03}"
    return f"[{when}] DEBUG Completed request:{json.dumps(said, separators=(',', ':'))} (kafka.request.logger)"


def of_topic(*partitions: Any) -> list[dict[str, Any]]:
    """Topics of a request or an answer: one, with these partitions."""
    return [{"topicId": TOPIC, "partitions": [*partitions]}]


def fetch(
    at: int,
    member: str,
    epoch: int,
    acquired: list[tuple[int, int, int]] = (),  # type: ignore[assignment]
    acknowledged: list[tuple[int, int, list[int]]] = (),  # type: ignore[assignment]
    *,
    error: int = 0,
    partition: int = 0,
    fetch_error: int = 0,
    leader: tuple[int, int] = (0, 0),
    forgotten: list[int] = (),  # type: ignore[assignment]
) -> str:
    """A ShareFetch of one partition: what it acquires, and what it acknowledges.

    ``partition`` -1 names none. ``leader`` is the id and epoch of the current leader, zeros where there is nothing to say.
    """
    given = _spans(acknowledged, "acknowledgeTypes")
    asked = {"partitionIndex": partition, "acknowledgementBatches": given}
    answered = {
        "partitionIndex": partition,
        "errorCode": fetch_error,
        "acknowledgeErrorCode": error,
        "currentLeader": {"leaderId": leader[0], "leaderEpoch": leader[1]},
        "acquiredRecords": _spans(acquired, "deliveryCount"),
    }
    return line(
        "ShareFetch",
        at,
        {
            "groupId": "g",
            "memberId": member,
            "shareSessionEpoch": epoch,
            "topics": of_topic(*([] if partition < 0 else [asked])),
            "forgottenTopicsData": of_topic(*forgotten),
        },
        {"errorCode": 0, "acquisitionLockTimeoutMs": 5_000, "responses": of_topic(answered)},
    )


def acknowledge(
    at: int, member: str, epoch: int, batches: list[tuple[int, int, list[int]]], *, error: int = 0
) -> str:
    """A ShareAcknowledge of partition 0."""
    given = _spans(batches, "acknowledgeTypes")
    asked = {"partitionIndex": 0, "acknowledgementBatches": given}
    request = {"groupId": "g", "memberId": member, "shareSessionEpoch": epoch}
    answered = of_topic({"partitionIndex": 0, "errorCode": error})
    return line(
        *("ShareAcknowledge", at, request | {"topics": of_topic(asked) if batches else []}),
        {"errorCode": 0, "acquisitionLockTimeoutMs": 5_000, "responses": answered},
    )


def state_call(
    api: str,
    at: int,
    partition: int = 0,
    *,
    error: int = 0,
    answer: dict[str, Any] | None = None,
    version: int = 1,
    **asked: Any,
) -> str:
    """A call of a share coordinator about one partition."""
    result = {"partition": partition, "errorCode": error} | (answer or {})
    request = {"groupId": "g", "topics": of_topic({"partition": partition} | asked)}
    return line(api, at, request, {"results": of_topic(result)}, version=version)


def heartbeat(
    at: int,
    member: str,
    epoch: int,
    *,
    answered: int | None = None,
    error: int = 0,
    assigned: list[int] | None = None,
    **asked: Any,
) -> str:
    """A heartbeat of a member; without ``assigned`` the assignment is as before."""
    topics = [{"topicId": TOPIC, "partitions": assigned}] if assigned else []
    assignment = None if assigned is None else {"topicPartitions": topics}
    request = {"groupId": "g", "memberId": member, "memberEpoch": epoch, "rackId": None}
    answer = {"errorCode": error, "memberEpoch": epoch if answered is None else answered}
    return line(
        "ShareGroupHeartbeat",
        at,
        request | {"subscribedTopicNames": None} | asked,
        answer | {"heartbeatIntervalMs": 5_000, "assignment": assignment},
    )


def described(at: int, state: str, assignment_epoch: int, *, members: int = 0) -> str:
    """A ShareGroupDescribe of the group."""
    group = {
        "errorCode": 0,
        "groupId": "g",
        "groupState": state,
        "groupEpoch": assignment_epoch,
        "assignmentEpoch": assignment_epoch,
        "assignorName": "simple",
        "members": [{"memberId": f"m{n}"} for n in range(members)],
        "authorizedOperations": -2147483648,
    }
    return line("ShareGroupDescribe", at, {"groupIds": ["g"]}, {"groups": [group]})


def log_of(folder: Path, *lines: str, zone: str = "UTC") -> Requests:
    """Write lines as a broker's request log, and open it."""
    path = folder / "kafka-request.log"
    path.write_text("".join(f"{one}\n" for one in lines))
    return Requests(RequestLog(path, zone))


def rows(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of a table, one tuple per row."""
    return [tuple(row.values()) for row in table.select(list(names)).to_pylist()]


def shown(log: Path, table: str) -> list[dict[str, Any]]:
    """Rows of a table as the command prints them of a log or a folder of logs."""
    return ask("requests", str(log), "--show", table)


def shown_of(folder: Path, table: str, *lines: str) -> list[dict[str, Any]]:
    """The same of a log with these lines."""
    log_of(folder, *lines)
    return shown(folder, table)


def batches(runs: list[tuple[int, int, int, int]]) -> list[dict[str, int]]:
    """State batches as requests have them."""
    return _spans(runs, "deliveryState", "deliveryCount")


def _spans(given: Iterable[tuple[Any, ...]], *names: str) -> list[dict[str, Any]]:
    names = ("firstOffset", "lastOffset", *names)
    return [dict(zip(names, one, strict=True)) for one in given]
