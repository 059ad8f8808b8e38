"""Perfetto traces in the documented wire format, made by the tests."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(**fields: object) -> bytes:
    """A message: ``f8=5`` is field 8; lists repeat a field, floats are doubles."""
    out = b""
    for name, given in fields.items():
        number = int(name[1:])
        for value in given if isinstance(given, list) else [given]:
            if isinstance(value, float):
                out += varint(number << 3 | 1) + struct.pack("<d", value)
            elif isinstance(value, int):
                out += varint(number << 3) + varint(value)
            else:
                data = value.encode() if isinstance(value, str) else value
                out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def packet(**fields: object) -> bytes:
    """One packet of a trace."""
    return message(f1=message(**fields))


def thread(uuid: int, pid: int, tid: int) -> bytes:
    return packet(f60=message(f1=uuid, f4=message(f1=pid, f2=tid, f5="main")))


def named(uuid: int, name: str, **more: object) -> bytes:
    return packet(f60=message(f1=uuid, f2=name, **more))


def begin(time: int, track: int, name: str, category: str, **numbers: int) -> bytes:
    notes = [message(f10=key, f3=value) for key, value in numbers.items()]
    return packet(f8=time, f10=1, f11=message(f9=1, f11=track, f22=category, f23=name, f4=notes))


def end(time: int, track: int) -> bytes:
    return packet(f8=time, f10=1, f11=message(f9=2, f11=track))


def slice_(span: tuple[int, int], track: int, name: str, category: str, **numbers: int) -> bytes:
    return begin(span[0], track, name, category, **numbers) + end(span[1], track)


def trace() -> bytes:
    """A step of a program as rocprof-sys records it."""
    return (
        thread(1, 50, 51) + named(2, "HIP Activity Device 1, Queue 3", f5=4)
        + packet(f60=message(f1=4, f3=message(f1=50)))
        + named(3, "GPU Power [1] (S)", f5=4, f8=message(f6="watts"))
        + begin(1000, 1, "main", "host")
        + slice_((1100, 1200), 1, "hipLaunchKernel", "rocm_hip_api", corr_id=7)
        + slice_((1250, 1300), 1, "hipMemcpyAsync", "rocm_hip_api", corr_id=8)
        + slice_((1400, 2600), 1, "hipDeviceSynchronize", "rocm_hip_api", corr_id=9)
        + slice_((1500, 2000), 2, "axpy(float*)", "rocm_kernel_dispatch", corr_id=7, queue=3)
        + slice_((2100, 2500), 2, "CopyHostToDevice", "rocm_memory_copy", corr_id=8, size=4096)
        + packet(f8=1600, f11=message(f9=4, f11=3, f44=251.5))
        + end(3000, 1)
    )  # fmt: skip
