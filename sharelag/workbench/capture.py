"""Save the state of a running cluster, to investigate it later and elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.engine import OVER, engines
from sharelag.errors import AuthorizationError, TopicMissingError, list_names
from sharelag.inputs import KafkaInput, RawInput
from sharelag.inputs.files.captures import CaptureInfo, check_place, share_records, write_capture
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.metrics.age import request_offsets
from sharelag.metrics.lag import lag_arrow
from sharelag.model.versions import resolve_version
from sharelag.tables import gaps
from sharelag.tables.arrow import keys
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

#: Number of moments in the recorded time, and in its last hour, at which end offsets are read.
_MOMENTS = 60


def capture_kafka(
    config: ClientConfig, folder: Path, overwrite: bool = False, patience: timedelta | None = None
) -> CaptureInfo:
    """Capture a running cluster: its records, and all other tables of an investigation.

    ``overwrite`` replaces a capture in the folder, but never other files. ``patience`` is the time
    after which a condition counts as stuck; by default the lock duration.
    """
    check_place(folder, overwrite)
    topics = {STATE_TOPIC: len(kafka.offset_ranges(config, STATE_TOPIC))}
    try:
        topics[GROUP_TOPIC] = len(kafka.offset_ranges(config, GROUP_TOPIC))
    except TopicMissingError:
        # It has the members of share groups, but the state topic is worth capturing without it.
        topics[GROUP_TOPIC] = 0
    cluster = kafka.cluster_id(config)

    def finish(records: Path) -> tuple[dict[str, pa.Table], CaptureInfo]:
        # After the state, because otherwise lag could seem negative.
        offsets = kafka.list_offsets(config, kafka.topic_ids(config))
        requested = offsets.column("as_of")[0].as_py() if offsets.num_rows else datetime.now(UTC)
        source = KafkaInput(config)
        extras, lacks = _extras(source, records, offsets, requested)
        version = resolve_version(source.kafka_version)
        return {"offsets": offsets, **extras}, CaptureInfo(
            cluster,
            requested,
            topics,
            config.public(),
            patience=patience,
            kafka_version=version,
            lacks=lacks,
        )

    records = (
        batch for topic, count in topics.items() if count for batch in share_records(config, topic)
    )
    return write_capture(folder, records, finish, overwrite)


def _extras(
    source: KafkaInput, records: Path, offsets: pa.Table, requested: datetime
) -> tuple[dict[str, pa.Table], tuple[str, ...]]:
    """Return the optional tables, and sentences on those that could not be read.

    Missing rights for them do not prevent a capture.
    """
    with engines.read(RawInput(str(records)), "local", history=False) as reading:
        windows = reading.table("states")
    lag = lag_arrow(windows, offsets)
    ids = sorted(set(pc.unique(windows.column("topic_id")).to_pylist()))
    named = sorted(set(lag.column("topic").drop_null().to_pylist()))
    groups = sorted(set(windows.column("group_id").to_pylist()))
    found: dict[str, pa.Table] = {}
    lacks = [*gaps.of_hidden(lag), *gaps.of_unanswered(lag)]
    no_logs = schemas.LOGS.empty_table()
    asks: dict[str, Callable[[], pa.Table]] = {
        "past_offsets": lambda: source.past_offsets(ids, _moments(records, requested)),
        "logs": lambda: source.logs(ids),
        "times": lambda: source.times(request_offsets(lag, found.get("logs", no_logs))),
        "committed_times": lambda: source.times(request_offsets(lag, no_logs), read_committed=True),
        "settings": lambda: source.settings(groups, named),
        "leaders": lambda: source.leaders(ids),
        "nodes": source.nodes,
    }
    for name, ask in asks.items():
        try:
            found[name] = ask()
        except AuthorizationError as error:
            lacks.append(f"{name}.parquet: {error}")
    lacks += gaps.of_settings(found["settings"]) if "settings" in found else ()
    asked, place = request_offsets(lag, no_logs).drop_null(), ("topic_id", "partition")
    is_read = pc.is_in(keys(asked, place), keys(found.get("times", asked), place))
    unread = sorted(set(asked.filter(pc.invert(is_read)).column("topic").to_pylist()))
    lacks += [f"times of records, and so ages, of {list_names(unread)}"] if unread else []
    return found, tuple(lacks)


def _moments(records: Path, until: datetime) -> list[datetime]:
    """Return evenly spaced moments from the first state record on, and where rates look."""
    first = until
    for batch in RawInput(str(records)).batches(STATE_TOPIC):
        of_state = batch.filter(pc.equal(batch.column("topic"), STATE_TOPIC))
        first = min(first, pc.min(of_state.column("timestamp")).as_py() or first)
    chosen = set[datetime]()
    for begin in (first, max(first, until - OVER)):
        step = max((until - begin) / _MOMENTS, timedelta(milliseconds=1))
        chosen |= {begin + n * step for n in range(_MOMENTS)}
    return sorted(moment for moment in chosen if moment < until)
