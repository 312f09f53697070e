"""How the pool and its workers talk: JSON texts with their length before them. JSON, because a worker that model
output has taken over must not be able to send anything but plain data."""

import json
import struct
from typing import BinaryIO

_HEADER = struct.Struct("!I")  # length of the JSON text that follows


def frame(message: object) -> bytes:
    body = json.dumps(message).encode("ascii")
    return _HEADER.pack(len(body)) + body


def read_frame(stream: BinaryIO) -> object | None:
    """The next message of a blocking stream, None at its end."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    message: object = json.loads(stream.read(_HEADER.unpack(header)[0]))
    return message


def take_frame(buffer: bytearray) -> object | None:
    """Removes the first whole message from `buffer` and returns it, None if there is none yet."""
    if len(buffer) < _HEADER.size:
        return None
    end = _HEADER.size + _HEADER.unpack(buffer[: _HEADER.size])[0]
    if len(buffer) < end:
        return None
    message: object = json.loads(bytes(buffer[_HEADER.size : end]))
    del buffer[:end]
    return message
