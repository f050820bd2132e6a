"""What DataFrames of a reading are made of: records where tasks can read them, and the cache."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.evidence import Evidence
from sharelag.pipeline import records, states
from sharelag.pipeline.collecting import frame_of
from sharelag.pipeline.records import Decoded
from sharelag.pipeline.tasks import FileRecords, Files, Logs
from sharelag.reading import Reading
from sharelag.replay.moment import filter_groups, up_to
from sharelag.sources.files.pieces import plan
from sharelag.sources.inputs import KafkaInput
from sharelag.sources.spark.files import files_in_reach
from sharelag.sources.spark.frames import FrameInput
from sharelag.wire.fields import STATE_TOPIC


class OnSpark(Reading):
    """What frames go by: a reading that has a Spark session."""

    @property
    @abstractmethod
    def spark(self) -> SparkSession:
        """The session that everything runs on."""

    @property
    def input_evidence(self) -> Evidence:
        """What the input has, without what is computed from records."""
        names = ("past_offsets", "times", "committed_times", "logs", "groups", "settings")
        return self._evidence(*names)


class FrameRecords:
    """Raw and replayed records of a reading; what several tables need stays in Spark's cache.

    Parameters
    ----------
    reading : OnSpark
    kept : list of DataFrame
        What is in the cache; the owner takes it out.
    """

    def __init__(self, reading: OnSpark, kept: list[DataFrame]) -> None:
        self._reading = reading
        self.kept = kept  # what has to leave Spark's cache one day

    def chosen(self, frame: DataFrame) -> DataFrame:
        """Only the rows of the chosen topics, by name, or id where the name is not known."""
        topics = self._reading.choice.topics
        if not topics:
            return frame
        name = F.coalesce("topic", "topic_id")
        each: list[Column] = [
            (name == topic) & (F.col("partition").isin(*partitions) if partitions else F.lit(True))
            for topic, partitions in topics.items()
        ]
        wanted = each[0]
        for one in each[1:]:
            wanted = wanted | one
        return frame.where(wanted)

    def raw_of(self, topic: str) -> DataFrame:
        """Raw records of a topic; others may be among them."""
        source, spark = self._reading.source, self._reading.spark
        if source.holds_both:
            topic = STATE_TOPIC
        if source.rereadable or self._is_stream or topic != STATE_TOPIC:
            return self._reading.once(("frame", "raw", topic), lambda: source.frame(spark, topic))
        # Asked several times: of a cluster, each time would be another moment.
        return self._keep("raw", lambda: source.frame(spark, topic).select(schemas.RAW.names))

    @property
    def file_records(self) -> FileRecords | None:
        """`records`, where tasks can read all those of a share partition themselves."""
        files, reading = self._whole_files, self._reading
        if files is None:
            return None
        groups = partial(filter_groups, groups=reading.choice.groups)
        found = FileRecords(files, generation=reading.choice.generation)
        return found.where(partial(up_to, moment=reading.as_of)).where(groups)

    @property
    def positions(self) -> DataFrame | None:
        """Where share partitions stand now, if tasks can read all records of each themselves."""
        found = self._logs or self._state_records
        if isinstance(found, Logs) or (isinstance(found, Files) and found.plan.whole):
            return states.positions(found)
        return None

    @property
    def states(self) -> DataFrame:
        """Windows, and counts of what was read."""
        as_of, choice = self._reading.as_of, self._reading.choice

        def made() -> DataFrame:
            raw = self._logs or self._state_records
            return states.replayed(raw, as_of, choice.groups, choice.generation)

        return self._keep("states", made)

    @property
    def _logs(self) -> Logs | None:
        """The state topic of a cluster, unless its records are in Spark's cache already.

        Every other table needs them there: asked twice, a cluster may have pruned some.
        """
        source = self._reading.source
        if isinstance(source, KafkaInput) and ("frame", "raw") not in self._reading.once:
            return Logs(self._reading.spark, source.config, STATE_TOPIC, source.state_ranges)
        return None

    @property
    def _whole_files(self) -> Files | None:
        found = self._state_records
        return found if isinstance(found, Files) and found.are_whole else None

    @property
    def _state_records(self) -> DataFrame | Files:
        """Raw records of the state topic, in files if tasks can read those themselves."""
        reading = self._reading

        def found() -> DataFrame | Files:
            paths = files_in_reach(reading.spark, reading.source, STATE_TOPIC)
            if paths is None:
                return self.raw_of(STATE_TOPIC)
            return Files(reading.spark, plan(paths, STATE_TOPIC))

        return reading.once("state records", found)

    @property
    def _gaps(self) -> Any:
        return self._reading.table("gaps")

    def _of_input(self, name: str) -> DataFrame:
        table = self._reading.table
        return self._reading.once(
            ("frame", name), lambda: frame_of(self._reading.spark, table(name))
        )

    def _decoded(self, topic: str) -> Decoded:
        return records.decode(self.raw_of(topic), topic, self._reading.choice.generation)

    @property
    def _is_stream(self) -> bool:
        source = self._reading.source
        return isinstance(source, FrameInput) and source.raw.isStreaming

    def _keep(self, name: str, made: Any) -> DataFrame:
        """A DataFrame that Spark keeps once it was computed."""
        if self._is_stream:
            raise InputError(
                f"{name} of a stream cannot be cached: use frames.windows and frames.lag with "
                "writeStream, sharelag.stream.watch for both as of now, or open a table of the "
                "records"
            )

        def kept() -> DataFrame:
            frame: DataFrame = made().persist()
            self.kept.append(frame)
            return frame

        return self._reading.once(("frame", name), kept)
