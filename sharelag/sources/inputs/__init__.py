"""Inputs: a cluster, a capture, raw Parquet, a broker's files. All answer the same questions."""

from sharelag.sources.inputs.capture import CaptureInput
from sharelag.sources.inputs.cluster import KafkaInput
from sharelag.sources.inputs.contract import Input, RecordsOnly, version_of
from sharelag.sources.inputs.files import PrintedInput, RawInput, SegmentsInput
from sharelag.sources.inputs.offsets import ends_as_of, ends_between, fold_ends, of_topics
from sharelag.sources.inputs.tables import TableInput

__all__ = [
    "CaptureInput",
    "Input",
    "KafkaInput",
    "PrintedInput",
    "RawInput",
    "RecordsOnly",
    "SegmentsInput",
    "TableInput",
    "ends_as_of",
    "ends_between",
    "fold_ends",
    "of_topics",
    "version_of",
]
