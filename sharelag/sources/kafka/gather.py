"""Kernels over librdkafka's messages where they lie in memory: out of them into columns.

`MESSAGE` is the public struct of rdkafka.h, the same since librdkafka 0.8. Nothing is checked here:
who calls has the addresses from the library itself, and has looked at its version.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sharelag.compiled import kernel


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
    """Return a function of an address for kernels."""

    @intrinsic
    def load(_context: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            place = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            return builder.load(place)

        return result(address), generate

    return load


_int32, _int64 = _load(32, types.int32), _load(64, types.int64)


def _copying() -> Any:
    @intrinsic
    def copy(_context: Any, target: Any, at: Any, address: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            octets = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            place = builder.gep(octets, [arguments[1]])
            source = builder.inttoptr(arguments[2], octets.type)
            move: Any = cgutils.raw_memcpy  # numba has no types of it
            move(builder, place, source, arguments[3], 1)
            return context.get_dummy_value()

        return types.void(target, at, address, size), generate

    return copy


def _calling(result: Any) -> Any:
    """Return what makes the code that calls a C function by its address, with 64-bit arguments."""
    form = _WORD if result is types.int64 else ir.VoidType()

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(form, [_WORD] * (len(arguments) - 1))
        found = builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return found if result is types.int64 else context.get_dummy_value()

    return generate


def _timestamps() -> Any:
    @intrinsic
    def timestamp(_context: Any, function: Any, message: Any, kind: Any) -> Any:
        return types.int64(function, message, kind), _calling(types.int64)

    return timestamp


def _destroying() -> Any:
    @intrinsic
    def destroy(_context: Any, function: Any, message: Any) -> Any:
        return types.void(function, message), _calling(types.void)

    return destroy


#: ``(target: uint8[], at, address, size)`` copies bytes.
_copy = _copying()
#: ``(function, message, address of its result)`` calls ``rd_kafka_message_timestamp``.
_timestamp = _timestamps()
#: ``(function, message)`` calls ``rd_kafka_message_destroy``.
_destroy = _destroying()


@kernel
def sizes(messages: Any, keys_end: Any, values_end: Any) -> None:
    """Write where the key and the value of each message end; the arrays begin with a 0.

    What an error has in place of a value is left out.
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
    """Copy what messages hold into columns, and give the messages back to the library.

    Parameters
    ----------
    messages : int64[]
        Their addresses.
    keys_end, values_end : int64[]
        Of `sizes`.
    timestamp, destroy : int
        Addresses of ``rd_kafka_message_timestamp`` and ``rd_kafka_message_destroy``.
    key_bytes, value_bytes, has_key, has_value, error, partition, offset, time
        The results.
    kinds : int
        The address of their timestamp types, of four bytes each.
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
