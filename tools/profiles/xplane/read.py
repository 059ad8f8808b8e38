"""Read the profiles of JAX and XLA (XPlane): kernels and copies of GPUs, calls, and the ranges of host threads.

A file is one message XSpace of planes, one for every device and for each tracer of the host. A plane has lines (streams
or threads) with events, and the names that their numbers stand for. The fields that are read are stated in
messages.toml; names of planes, lines and properties are those of XLA's profiler.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ....analysis.base.database import sql_literal
from ....analysis.base.text import count_text
from ....analysis.catalogue.targets import plausible_facts, target_of_device
from ...base import progress
from ...base.profile_files import files_below, files_of_format, head, is_inside, open_text
from ...base.untrusted_text import plain_text
from ..event_layout import EventLayout
from ..merging.contract import Connection, parquet, write_relation
from ..merging.ranks import ProcessPlace, host_name, place_of_name, sql_value
from ..merging.wording import note, refusal
from ..parsing.protobuf import WireError, message_types, messages, parse, text
from ..parsing.spool import NumberedTexts
from ..reader import Profile, ProfileFiles
from ..timelines.timeline_tables import TimelineQueries, kernel_launches

_SUFFIX = ".xplane.pb"
_PLANES, _WARNINGS, _HOSTS = 1, 3, 4
_FIRST_BYTES = (b"\x0a", b"\x12", b"\x1a", b"\x22")
"""Tags of the fields of XSpace."""
_LARGEST_PLANE = 1 << 30
_LARGEST = 1 << 62
_RUNS = "plugins/profile/*"
"""Where jax.profiler.trace puts the files of a run below its folder."""
_LAYOUT = EventLayout(__file__)
_SIZES = ("grid", "workgroup_size", "vgpr", "lds_bytes")
_ROLES: list[str] = _LAYOUT.stated["roles"]
_GPU = re.compile(r"/device:GPU:(\d{1,6})\b.*")
_CALLS = ("/host:CUPTI", "/host:ROCTRACER")
_THREADS: dict[str, str] = _LAYOUT.stated["threads"]
"""Plane of host threads -> the source of its ranges, if it is the same for all."""
_WITHOUT_EVENTS = ("/host:metadata", "Task Environment")
_DERIVED: dict[str, str] = _LAYOUT.stated["derived"]
"""Lines of a device that XLA derives from its kernels -> the source of their ranges."""
_OVERHEAD, _COUNTERS, _STATISTICS = "CUPTI overhead", "_counters_", ("Launch Stats", "Source code")
_DETAILS = re.compile(r"(\w+):([\w,]+)")
_RUNTIME = re.compile(r"[A-Za-z_]\w*(?:::|\().*")
"""Names of ranges of the runtime: functions of C++, and PjitFunction(f)."""
_GRAPH_SUFFIX = re.compile(r" \(CudaGraph:\d+\)$")
_MARK = "NVTX:"


def detect(path: Path) -> bool:
    """Return whether ``path`` is such a file, or a folder with such files, also that given to jax.profiler.trace."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    files = files_below(path, (_SUFFIX,))
    if path.is_dir() and not files:
        files = sorted(f for f in path.glob(f"{_RUNS}/*{_SUFFIX}*") if is_inside(f, path))
    named = [file for file in files if file.name.removesuffix(".gz").endswith(_SUFFIX)]
    return [file for file in named if files_of_format(file, (_SUFFIX,), lambda f: head(f, 1) in _FIRST_BYTES)]


def read(files: ProfileFiles) -> Profile:
    """Return the profile at ``files.path``; BadInput if it is damaged, or has no events of a host or a GPU."""
    path = files.path
    sources = files.or_itself(_files(path))
    if len(sources) != 1:
        what = f"{count_text(len(sources), 'profile')} of XLA" if sources else "no profile of XLA"
        names = [str(file.relative_to(path)) for file in sources[:4]]
        raise refusal("no_single_xplane", path=path, what=what, files=names)
    (file,) = sources
    space = _SpaceReader(files.con, files.work)
    space.read(file)
    return _profile(files, file, space)


@cache
def _types() -> dict[str, Any]:
    return message_types(Path(__file__).with_name("messages.toml"))


@dataclass(frozen=True)
class _Plane:
    """The names and properties of one plane, and its lines as they are in the file."""

    name: str
    lines: Sequence[bytes]
    events: Mapping[int, str]
    """Number of an event's metadata -> its name."""
    properties: Mapping[int, str]
    """Number of a property -> its name, or a text that properties refer to."""
    own: Sequence[Any]
    """Properties of the plane."""

    @staticmethod
    def of(data: bytes) -> _Plane:
        plane = parse(_types()["Plane"], data)
        events, properties = (
            {one.key: text(one.metadata.name) for one in named} for named in (plane.events, plane.properties)
        )
        return _Plane(text(plane.name), plane.lines, events, properties, plane.own)

    def values(self, stated: Sequence[Any]) -> dict[str, int | float | str | None]:
        """Return properties by name."""
        values = {}
        for one in stated:
            value = None
            for field, value in one.ListFields():
                if field.name == "name":
                    value = None
                elif field.name == "text":
                    value = text(value)
                elif field.name == "reference":
                    value = self.properties.get(value, "")
            values[self.properties.get(one.name, "")] = value
        return values


@dataclass(frozen=True)
class _Place:
    """What a line of a plane holds: the role of its events (empty: to be decided for each), device, stream, thread."""

    role: str
    device: int | None = None
    stream: int | None = None
    thread: int | None = None


class _SpaceReader:
    """Reads the planes of one file into a spool of events."""

    def __init__(self, con: Connection, work: Path) -> None:
        self.rows = _LAYOUT.spool(con, work, "xplane_rows")
        self.names = NumberedTexts(con, work / "xplane_names")
        self.devices: dict[int, dict[str, Any]] = {}
        """Number of a GPU -> its properties."""
        self.pid: int | None = None
        self.host: str | None = None
        self.warnings: list[str] = []
        self.skipped: Counter[str] = Counter()
        """Description of what was not read -> number of events."""
        self._derived = 0

    def read(self, file: Path) -> None:
        """Spool the events of a file; BadInput if it is damaged."""
        with open_text(file) as stream:
            try:
                for number, data in messages(stream, (_PLANES, _WARNINGS, _HOSTS), _LARGEST_PLANE):
                    if number == _PLANES:
                        self._take(_Plane.of(data))
                        progress.report(f"read {count_text(self.rows.rows, 'event')} of {file.name}")
                    elif number == _WARNINGS:
                        self.warnings.append(plain_text(text(data)))
                    else:
                        self.host = self.host or host_name(text(data))
            except (WireError, zlib.error) as error:
                raise refusal("damaged", file=file, why=str(error)) from error

    def _take(self, plane: _Plane) -> None:
        own = plane.values(plane.own)
        pid = own.get("process_id")
        if isinstance(pid, int) and 0 < pid < 1 << 31:
            self.pid = pid
        gpu = _GPU.fullmatch(plane.name)
        if gpu:
            self.devices[int(gpu[1])] = own
        for data in plane.lines:
            line = parse(_types()["Line"], data)
            name = text(line.name) or text(line.shown)
            place = self._place(plane.name, name, int(gpu[1]) if gpu else None, line.number)
            if place is None:
                self.skipped[f"{plane.name} {name}" if gpu else plane.name] += len(line.events)
                continue
            for event in line.events:
                self._event(plane, place, line.base_ns, parse(_types()["Event"], event))

    def _place(self, plane: str, line: str, device: int | None, number: int) -> _Place | None:
        """Return what a line holds; None if a timeline has no place for it."""
        if device is not None:
            if line in _DERIVED:
                self._derived += 1
                return _Place(_DERIVED[line], device, thread=-1 - self._derived)
            if line == _OVERHEAD:
                return _Place("profiler", thread=number)
            return None if line in (_COUNTERS, *_STATISTICS) else _Place("", device, stream=number)
        if plane in _CALLS:
            return _Place("call", thread=number)
        return _Place(_THREADS[plane], thread=number) if plane in _THREADS else None

    def _event(self, plane: _Plane, place: _Place, base_ns: int, event: Any) -> None:
        name = plane.events.get(event.metadata, "")
        start, end = base_ns + event.offset_ps // 1000, base_ns + (event.offset_ps + event.length_ps) // 1000
        if event.HasField("occurrences") or not -_LARGEST < start <= end < _LARGEST:
            self.skipped["totals and impossible times"] += 1
            return
        if place.device is None and place.role != "call" and not event.length_ps:
            self.skipped["instants"] += 1
            return
        values = plane.values(event.stated)
        role = place.role or _role(name, values, of_device=place.stream is not None)
        number_of = self.names.number(_GRAPH_SUFFIX.sub("", name.removeprefix(_MARK)))
        row = (_ROLES.index(role), number_of, place.device, place.stream, place.thread, start, end)
        stated = values.get("correlation_id")
        correlation = stated if type(stated) is int and 0 <= stated < _LARGEST else None
        self.rows.append((*row, correlation, *_sizes(values)))


def _role(name: str, values: Mapping[str, Any], *, of_device: bool) -> str:
    """Return the role of device work, or the source of a range: Python's tracer, the runtime, or the program."""
    if of_device:
        if "memcpy_details" in values or name.startswith("Memcpy"):
            return "copy"
        return "fill" if "Memset_details" in values or name.startswith("Memset") else "kernel"
    if name.startswith("$"):
        return "python"
    of_runtime = "_src" in values or "hlo_op" in values or _RUNTIME.fullmatch(name)
    return "xla" if of_runtime and "step_num" not in values else "user"


@cache
def _details(stated: str) -> dict[str, str]:
    return dict(_DETAILS.findall(stated))


def _sizes(values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return bytes, work-items, work-items per work-group, registers, shared memory, and whether memory is pinned."""
    for name in ("memcpy_details", "Memset_details"):
        if isinstance(stated := values.get(name), str):
            known = _details(stated[:1000])
            kinds = {known.get("kind_src"), known.get("kind_dst")}
            pinned = True if "pinned" in kinds else False if "pageable" in kinds else None
            return _count(known.get("size") or known.get("num_bytes")), None, None, None, None, pinned
    if not isinstance(stated := values.get("kernel_details"), str):
        return (None,) * 6
    known = _details(stated[:1000])
    blocks, threads = (_product(known.get(name)) for name in ("grid", "block"))
    shared = [_count(known.get(name)) for name in ("static_shared", "dynamic_shared", "group_mem")]
    items = blocks * threads if blocks and threads else None
    lds = sum(part for part in shared if part is not None) if any(part is not None for part in shared) else None
    return None, items if items and items < _LARGEST else None, threads, _count(known.get("regs")), lds, None


def _count(digits: str | None) -> int | None:
    return int(digits) if digits and digits.isdecimal() and len(digits) < 19 else None


def _product(sides: str | None) -> int | None:
    product = 1
    for side in (sides or "0").split(",")[:3]:
        product *= _count(side) or 0
    return product if 0 < product < _LARGEST else None


def _profile(files: ProfileFiles, file: Path, space: _SpaceReader) -> Profile:
    con, work = files.con, files.work
    role = " ".join(f"WHEN {number} THEN {sql_literal(name)}" for number, name in enumerate(_ROLES))
    decided = write_relation(
        con,
        f"SELECT r.* EXCLUDE (role, name), CASE r.role {role} END AS role, n.text, {sql_value(space.pid)}::BIGINT AS "
        f"pid FROM {parquet(space.rows.close())} r JOIN {parquet(space.names.close())} n ON n.number = r.name",
        work / "xplane_decided.parquet",
    )
    kernels = work / "xplane_launches.parquet"
    launches = kernel_launches(con, file, kernels, decided, *_SIZES)
    device = next((space.devices[number] for number in sorted(space.devices)), {})
    vendor = {"Nvidia": "nvidia", "AMD": "amd"}.get(str(device.get("device_vendor")))
    name = plain_text(str(device.get("gpu_device_name") or ""), 80) or None
    stated = {"cu_per_gpu": device.get("core_count"), "memory_bytes": device.get("memory_size")}
    facts = plausible_facts(stated)
    capability = device.get("compute_cap_major"), device.get("compute_cap_minor", 0)
    place = ProcessPlace(host=space.host).or_else(place_of_name(file))
    nothing = refusal("no_planes", file=file)
    skipped = {what: n for what, n in space.skipped.items() if n and what not in _WITHOUT_EVENTS}
    shown = [f"{plain_text(what, 60)} ({n})" for what, n in skipped.items()][:8]
    notes = [note("not_read.planes", events=shown)] if skipped else []
    return Profile(
        name=file.name.removesuffix(".gz").removesuffix(_SUFFIX),
        vendor=vendor,
        arch=target_of_device(vendor, name, capability, facts),
        device=name,
        tool="XLA profiler",
        host=place.host,
        rank=place.rank,
        facts=facts,
        passes=[launches],
        timeline=TimelineQueries(*_LAYOUT.timeline(decided, kernels, {}), refusal=lambda _: nothing, notes=notes),
        warnings=[note("profiler", warning=warning) for warning in space.warnings[:4]],
    )  # fmt: skip
