"""Columns of figures that brokers and clients measure themselves."""

from __future__ import annotations

from sharelag.tables.columns.column import Column, Format

COLUMNS = {
    "read_from": Column(Format.TEXT, "file or address that a figure was read from", "FROM"),
    "mbean": Column(Format.TEXT, "domain and type of Kafka's MBean; null: not one that is known"),
    "metric": Column(Format.TEXT, "name of the metric, as Kafka calls it"),
    "attribute": Column(Format.TEXT, "which of its numbers: Value, Count, OneMinuteRate ..."),
    "ack_type": Column(
        Format.TEXT, "accept, release, reject or renew; null where the metric has none"
    ),
    "client_instance_id": Column(Format.TEXT, "id of the client that measured it, by KIP-714"),
    "tags": Column(Format.LIST, "the other labels, as name=value"),
    "figure": Column(Format.RATIO, "the number; null where it is NaN"),
    "legacy": Column(
        Format.FLAG,
        "whether it is as KIP-932 had it before it was adopted: a metric under another name, a "
        "request with a session in place of a member",
    ),
    "in_flight_offsets": Column(
        Format.OFFSETS,
        "length of the window in the leader's memory, finished offsets within it included; null "
        "where no broker's metrics of the moment say it, or may be of an earlier load",
    ),
    "in_flight_batches": Column(Format.COUNT, "batches in the leader's memory"),
    "acquired_low": Column(
        Format.OFFSETS, "at least so many offsets without a persisted state are acquired"
    ),
    "acquired_high": Column(
        Format.OFFSETS, "at most so many offsets without a persisted state are acquired"
    ),
    "never_delivered_low": Column(
        Format.OFFSETS, "at least so many offsets are beyond the window in the leader's memory"
    ),
    "never_delivered_high": Column(
        Format.OFFSETS, "at most so many offsets are beyond the window in the leader's memory"
    ),
    "lock_timeouts": Column(
        Format.COUNT, "acquisition locks that expired since the leader loaded the share partition"
    ),
    "lock_timeout_rate": Column(
        Format.RATE,
        "acquisition locks that expired a second, between two readings of the same broker",
        "TIMEOUTS/S",
    ),
}
