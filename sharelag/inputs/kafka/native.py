"""Read messages of an assigned topic as columns, many at a time, from librdkafka's own memory.

confluent-kafka creates a Python object for each message, and six calls read it: that costs more
than all other processing of a record. So for many records a second client of the same library, with
the same settings, reads them, through functions and a struct that rdkafka.h documents.

`MESSAGE` is the public struct of rdkafka.h, unchanged since librdkafka 0.8. Nothing is checked
here: callers get the addresses from the library itself, and have checked its version.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, KafkaError, cimpl, libversion
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from sharelag.compiled import compile_kernel, kernel
from sharelag.errors import ConfigError
from sharelag.inputs.kafka.client import Failed, Taken, consumer_settings, is_logged, raw_batch
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.failures import translate_error
from sharelag.wire.interpreter import from_buffers


class MESSAGE(ctypes.Structure):
    """``rd_kafka_message_t``."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("rkt", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("_private", ctypes.c_void_p),
    )


_ERR, _PARTITION, _OFFSET = MESSAGE.err.offset, MESSAGE.partition.offset, MESSAGE.offset.offset
_VALUE, _VALUE_SIZE = MESSAGE.payload.offset, MESSAGE.len.offset
_KEY, _KEY_SIZE = MESSAGE.key.offset, MESSAGE.key_len.offset
_WORD = ir.IntType(64)


def _load(bits: int, result: Any) -> Any:

    @intrinsic
    def load(_context: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            place = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            return builder.load(place)

        return result(address), generate

    return load


_int32, _int64 = _load(32, types.int32), _load(64, types.int64)


def _copying(_context: Any, target: Any, at: Any, address: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        octets = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(octets, [arguments[1]])
        source = builder.inttoptr(arguments[2], octets.type)
        move: Any = cgutils.raw_memcpy  # it has no type annotations
        move(builder, place, source, arguments[3], 1)
        return context.get_dummy_value()

    return types.void(target, at, address, size), generate


def _calling(result: Any) -> Any:
    """Return a code generator for calls of a C function by address, with 64-bit arguments."""
    form = _WORD if result is types.int64 else ir.VoidType()

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(form, [_WORD] * (len(arguments) - 1))
        found = builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return found if result is types.int64 else context.get_dummy_value()

    return generate


def _timing(_context: Any, function: Any, message: Any, kind: Any) -> Any:
    return types.int64(function, message, kind), _calling(types.int64)


def _destroying(_context: Any, function: Any, message: Any) -> Any:
    return types.void(function, message), _calling(types.void)


#: ``(target: uint8[], at, address, size)``: copy bytes.
_copy: Any = intrinsic(_copying)
#: ``(function, message, address of its result)``: call ``rd_kafka_message_timestamp``.
_timestamp: Any = intrinsic(_timing)
#: ``(function, message)``: call ``rd_kafka_message_destroy``.
_destroy: Any = intrinsic(_destroying)


@kernel
def sizes(messages: Any, keys_end: Any, values_end: Any) -> None:
    """Write the end positions of the keys and values of messages; the arrays begin with a 0.

    The text of an error, in place of a value, is left out.
    """
    for i in range(messages.size):
        is_record = _int32(messages[i] + _ERR) == 0
        keys_end[i + 1] = keys_end[i] + is_record * _int64(messages[i] + _KEY_SIZE)
        values_end[i + 1] = values_end[i] + is_record * _int64(messages[i] + _VALUE_SIZE)


@kernel
def gather(
    messages: Any, keys_end: Any, values_end: Any, timestamp: int, destroy: int, key_bytes: Any,
    value_bytes: Any, has_key: Any, has_value: Any, error: Any, partition: Any, offset: Any,
    time: Any, kinds: int,
) -> None:  # fmt: skip
    """Copy messages into columns, and return their memory to the library.

    ``messages`` are addresses (int64), ``keys_end`` and ``values_end`` the results of `sizes`.
    ``timestamp`` and ``destroy`` are the addresses of ``rd_kafka_message_timestamp`` and
    ``rd_kafka_message_destroy``, ``kinds`` that of an array of timestamp types, four bytes each.
    The other parameters are the results.
    """
    for i in range(messages.size):
        message = messages[i]
        error[i] = _int32(message + _ERR)
        partition[i], offset[i] = _int32(message + _PARTITION), _int64(message + _OFFSET)
        key, value = _int64(message + _KEY), _int64(message + _VALUE)
        has_key[i], has_value[i] = key != 0, value != 0
        _copy(key_bytes, keys_end[i], key, keys_end[i + 1] - keys_end[i])
        _copy(value_bytes, values_end[i], value, values_end[i + 1] - values_end[i])
        time[i] = _timestamp(timestamp, message, kinds + 4 * i)
        _destroy(destroy, message)
        messages[i] = 0


_MAJOR = 2  # of librdkafka
_CONSUMER = 1  # of rd_kafka_type_t
_WITHOUT_GROUP = 8  # RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE: there is no group to be left
_ERROR_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # result, arguments
    "rd_kafka_version": (c_int,),
    "rd_kafka_conf_new": (c_void_p,),
    "rd_kafka_conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "rd_kafka_conf_set_error_cb": (None, c_void_p, _ERROR_CALLBACK),
    "rd_kafka_conf_set_log_cb": (None, c_void_p, c_void_p),
    "rd_kafka_conf_destroy": (None, c_void_p),
    "rd_kafka_new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "rd_kafka_poll_set_consumer": (c_int, c_void_p),
    "rd_kafka_queue_get_consumer": (c_void_p, c_void_p),
    "rd_kafka_queue_destroy": (None, c_void_p),
    "rd_kafka_destroy_flags": (None, c_void_p, c_int),
    "rd_kafka_topic_partition_list_new": (c_void_p, c_int),
    "rd_kafka_topic_partition_list_add": (c_void_p, c_void_p, c_char_p, c_int32),
    "rd_kafka_topic_partition_list_set_offset": (c_int, c_void_p, c_char_p, c_int32, c_int64),
    "rd_kafka_topic_partition_list_destroy": (None, c_void_p),
    "rd_kafka_incremental_assign": (c_void_p, c_void_p, c_void_p),
    "rd_kafka_incremental_unassign": (c_void_p, c_void_p, c_void_p),
    "rd_kafka_error_code": (c_int, c_void_p),
    "rd_kafka_error_destroy": (None, c_void_p),
    "rd_kafka_consume_batch_queue": (c_ssize_t, c_void_p, c_int, c_void_p, c_size_t),
    "rd_kafka_message_timestamp": (c_int64, c_void_p, c_void_p),
    "rd_kafka_message_destroy": (None, c_void_p),
}


@cache
def library() -> Any:
    """Return the librdkafka that confluent-kafka has loaded; None if it is hidden or unknown.

    Its functions are found through the client's module if the system looks up symbols in the
    dependencies of a library (not on Windows).
    """
    found = ctypes.CDLL(cimpl.__file__)
    try:
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError:
        return None
    version = found.rd_kafka_version()
    is_known = version == libversion()[1] and version >> 24 == _MAJOR
    return found if is_known and ctypes.sizeof(c_void_p) == ctypes.sizeof(c_int64) else None


def is_usable(config: ClientConfig) -> bool:
    """Return whether the library is usable, and no setting needs confluent-kafka itself."""
    settings = config.settings
    has_callbacks = not all(isinstance(one, str | int | float) for one in settings.values())
    uses_tokens = settings.get("sasl.mechanism", settings.get("sasl.mechanisms")) == "OAUTHBEARER"
    return not (has_callbacks or uses_tokens or is_logged()) and library() is not None


class NativeMessages:
    """Messages from librdkafka itself, with the interface of `PlainMessages`."""

    at_once = 5_000

    def __init__(self, config: ClientConfig, topic: str, errors: list[KafkaError]) -> None:
        self._config, self._topic, self._library = config, topic, library()
        # Kept alive with the client, because the library calls it.
        self._hear = _ERROR_CALLBACK(
            lambda _client, code, why, _opaque: errors.append(
                KafkaError(code, (why or b"").decode())
            )
        )
        self._places = np.zeros(0, np.int64)
        self._client = self._open()
        self._library.rd_kafka_poll_set_consumer(self._client)
        self._queue = self._library.rd_kafka_queue_get_consumer(self._client)
        self._addresses = [
            ctypes.cast(function, c_void_p).value
            for function in (
                self._library.rd_kafka_message_timestamp,
                self._library.rd_kafka_message_destroy,
            )
        ]

    def assign(self, offsets: Mapping[int, int]) -> None:
        self._change(self._library.rd_kafka_incremental_assign, offsets)

    def leave(self, partition: int) -> None:
        self._change(self._library.rd_kafka_incremental_unassign, {partition: OFFSET_BEGINNING})

    def rewind(self, partition: int) -> None:
        self.leave(partition)
        self.assign({partition: OFFSET_BEGINNING})

    def take(self, most: int, timeout: float) -> Taken:
        places = self._places = np.zeros(most, np.int64)
        count = self._library.rd_kafka_consume_batch_queue(
            self._queue, round(timeout * 1000), places.ctypes.data, most
        )
        return self._columns(places[:count]) if count > 0 else Taken(None)

    def close(self) -> None:
        for place in self._places[self._places != 0].tolist():
            self._library.rd_kafka_message_destroy(place)
        self._library.rd_kafka_queue_destroy(self._queue)
        self._library.rd_kafka_destroy_flags(self._client, _WITHOUT_GROUP)

    def _open(self) -> Any:
        conf, why = self._library.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
        self._library.rd_kafka_conf_set_log_cb(conf, None)
        self._library.rd_kafka_conf_set_error_cb(conf, self._hear)
        client = None
        if all(
            self._library.rd_kafka_conf_set(conf, name.encode(), _text(value), why, len(why)) == 0
            for name, value in consumer_settings(self._config).items()
        ):
            client = self._library.rd_kafka_new(_CONSUMER, conf, why, len(why))
        if client is None:
            self._library.rd_kafka_conf_destroy(conf)
            raise ConfigError(f"the Kafka client rejected the settings: {why.value.decode()}")
        return client

    def _change(self, function: Callable[..., Any], offsets: Mapping[int, int]) -> None:
        library, topic = self._library, self._topic.encode()
        partitions = library.rd_kafka_topic_partition_list_new(len(offsets))
        for partition, offset in offsets.items():
            library.rd_kafka_topic_partition_list_add(partitions, topic, partition)
            library.rd_kafka_topic_partition_list_set_offset(partitions, topic, partition, offset)
        error = function(self._client, partitions)
        library.rd_kafka_topic_partition_list_destroy(partitions)
        if error:
            code = library.rd_kafka_error_code(error)
            library.rd_kafka_error_destroy(error)
            raise translate_error(KafkaError(code), self._topic, self._config)

    def _columns(self, places: NDArray[np.int64]) -> Taken:
        count = len(places)
        ends = np.zeros((2, count + 1), np.int64)
        compile_kernel(sizes)(places, *ends)
        octets = [np.empty(end, np.uint8) for end in ends[:, -1]]
        has, error = np.empty((2, count), np.bool_), np.empty(count, np.int32)
        partition, offset = np.empty(count, np.int32), np.empty(count, np.int64)
        time, kinds = np.empty(count, np.int64), np.empty(count, np.int32)
        run: Any = compile_kernel(gather)
        run(
            places, *ends, *self._addresses, *octets, *has, error, partition, offset, time,
            kinds.ctypes.data,
        )  # fmt: skip
        kind = pa.large_binary()
        keys, values = (
            from_buffers(kind, *one).cast(pa.binary())
            for one in zip(ends, octets, has, strict=True)
        )
        records = raw_batch(self._topic, keys, values, partition, offset, time, kinds)
        if not error.any():
            return Taken(records)
        numbers = zip(
            *(one[error != 0].tolist() for one in (error, partition, offset)), strict=True
        )
        failed = [Failed(KafkaError(code), *place) for code, *place in numbers]
        records = records.filter(pa.array(error == 0))
        return Taken(records if records.num_rows else None, failed)


def _text(value: Any) -> bytes:
    return (str(value).lower() if isinstance(value, bool) else str(value)).encode()
