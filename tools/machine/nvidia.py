"""NVIDIA GPUs, asked of nvidia-smi; where that fails, named by the driver's files in /proc."""

from __future__ import annotations

import csv
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import pci
from .files import clean, listing, read
from .model import Device, Roots
from .programs import Answer, ask, find

FIELDS = (
    "index", "uuid", "name", "memory.total", "clocks.max.sm", "driver_version", "pci.bus_id", "mig.mode.current",
    "compute_cap",
)  # fmt: skip
_PLACES = ("usr/bin", "usr/local/nvidia/bin", "usr/lib/wsl/lib", "opt/bin")
_SMI_S, _DRIVER_S = 20.0, 15.0
"""Seconds: without persistence mode the driver starts every GPU first, which takes seconds on a full node."""


@dataclass(frozen=True)
class Found:
    """The GPUs, and one sentence for everything that went wrong."""

    devices: list[Device] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def devices(roots: Roots, timeout_s: float = _SMI_S) -> Found:
    """Every GPU that nvidia-smi lists. Its absence, failure, silence or garbage is a note, never an error."""
    programs = find("nvidia-smi", roots, _PLACES)
    if not programs:
        named = _from_proc(roots)
        bus = [] if named else pci.on_bus(roots, "nvidia")
        if not named and not bus:
            return Found()
        what = "the driver lists GPUs" if named else f"NVIDIA GPUs are on the PCI bus ({', '.join(bus[:8])})"
        return Found(
            named, [f"{what[0].upper()}{what[1:]}, but nvidia-smi is not installed. Install the driver's tools."]
        )
    answer, fields = _query(programs[0], timeout_s)
    if answer.complaint or "no devices were found" in answer.out.lower():
        return Found(_from_proc(roots), _failed(answer))
    rows, strange = _rows(answer.out, fields)
    listed = [_device(roots, row) for row in rows]
    notes = []
    if strange:
        notes.append(
            f"nvidia-smi answered with {strange} lines that describe no GPU, such as "
            f"{_first_strange(answer.out, fields)!r}. Run it by hand; figures that it would have told may be missing."
        )
    if not listed and strange:
        listed = _from_proc(roots)
    if any(d.partition == "MIG enabled" for d in listed):
        notes.append(
            "A GPU is in MIG mode: programs see only its instances (nvidia-smi -L lists them), each with a part of its "
            "SMs and memory."
        )
    return Found(_completed(listed) if rows else listed, notes)


def _query(program: Path, timeout_s: float) -> tuple[Answer, list[str]]:
    """nvidia-smi's answer and the fields asked for; fields that an old one does not know are left out."""
    fields = list(FIELDS)
    while True:
        answer = ask([str(program), f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"], timeout_s)
        unknown = re.search(r'Field "([\w.]+)" is not a valid field', answer.out + answer.err)
        if answer.failure or not unknown or unknown[1] not in fields[3:]:
            return answer, fields
        fields.remove(unknown[1])


def _rows(text: str, fields: list[str]) -> tuple[list[dict[str, str]], int]:
    """The rows that have every field and a GPU's uuid, and how many other lines there were."""
    lines = [line for line in text.splitlines() if line.strip()]
    rows = [row for line in lines if (row := _row(line, fields))]
    return rows, len(lines) - len(rows)


def _row(line: str, fields: list[str]) -> dict[str, str] | None:
    cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
    row = dict(zip(fields, cells, strict=False))
    fits = len(cells) == len(fields) and row["index"].isdecimal() and re.fullmatch(r"GPU-[0-9a-fA-F-]{36}", row["uuid"])
    return row if fits else None


def _first_strange(text: str, fields: list[str]) -> str:
    return clean(next((line for line in text.splitlines() if line.strip() and not _row(line, fields)), ""), 100)


def _device(roots: Roots, row: dict[str, str]) -> Device:
    where = pci.normalized(row.get("pci.bus_id", ""))
    memory, mig = _number(row.get("memory.total")), row.get("mig.mode.current", "").lower()
    return Device(
        vendor="nvidia",
        index=int(row["index"]),
        name=_text(row["name"]),
        arch=_arch(row.get("compute_cap", "")),
        uuid=row["uuid"],
        clock_max_mhz=_number(row.get("clocks.max.sm")),
        memory_bytes=memory * 1024 * 1024 if memory else None,
        partition=f"MIG {mig}" if mig in ("enabled", "disabled") else None,
        driver=_text(row.get("driver_version", "")),
        pci=where,
        numa_node=pci.numa_node(roots, where),
    )


def _arch(capability: str) -> str | None:
    """``9.0`` is sm_90."""
    hit = re.fullmatch(r"(\d+)\.(\d+)", capability)
    return f"sm_{hit[1]}{hit[2]}" if hit else None


def _number(text: str | None) -> int | None:
    """A positive figure; [N/A], [Not Supported], [Unknown Error], ERR! and 0 are none."""
    return round(float(text)) or None if text and re.fullmatch(r"\d+(\.\d+)?", text) else None


def _text(text: str) -> str | None:
    return None if text.startswith("[") else clean(text) or None


def _completed(listed: list[Device]) -> list[Device]:
    """The devices with the number of their SMs, which only the CUDA driver tells: a child process asks it."""
    answer = ask([sys.executable, "-I", str(Path(__file__).with_name("cuda_driver.py"))], _DRIVER_S)
    try:
        told = {item["uuid"]: item for item in json.loads(answer.out)}
    except (ValueError, TypeError, KeyError):
        # No libcuda, no access to the GPU, or a driver that hangs: the figures stay unknown.
        return listed
    known = {d.uuid: told[d.uuid] for d in listed if d.uuid in told}
    return [
        d.model_copy(
            update={"compute_units": int(known[d.uuid]["sms"]), "arch": d.arch or _arch(known[d.uuid]["capability"])}
        )
        if d.uuid in known
        else d
        for d in listed
    ]


def _from_proc(roots: Roots) -> list[Device]:
    """GPUs by name, uuid and location, as the loaded driver lists them without any program."""
    found: list[Device] = []
    for folder in listing(roots.at("proc/driver/nvidia/gpus")):
        pairs = (line.partition(":") for line in (read(folder / "information") or "").splitlines())
        facts = {key.strip(): value.strip() for key, _, value in pairs}
        where = pci.normalized(facts.get("Bus Location", folder.name))
        uuid = facts.get("GPU UUID", "")
        found.append(
            Device(
                vendor="nvidia",
                index=len(found),
                name=_text(facts.get("Model", "")),
                uuid=uuid if re.fullmatch(r"GPU-[0-9a-fA-F-]{36}", uuid) else None,
                pci=where,
                numa_node=pci.numa_node(roots, where),
            )
        )
    return found


def _failed(answer: Answer) -> list[str]:
    said, all_said = answer.complaint, (answer.out + answer.err).lower()
    if "no devices were found" in all_said:
        return [
            "nvidia-smi is installed, but the driver has no GPU for this process. Start the container with its GPUs "
            "(--gpus all), or ask the batch system for one."
        ]
    if "version mismatch" in all_said:
        fix = "The driver was updated while the old one is loaded: reboot, or reload the nvidia modules."
    elif "couldn't communicate" in all_said or "driver not loaded" in all_said:
        fix = "The nvidia kernel module is not loaded: load it (modprobe nvidia), or run on a node with a GPU."
    elif answer.failure:
        fix = "The driver may hang: see dmesg for Xid messages; figures that it would have told are missing."
    else:
        fix = "Run it by hand; figures that it would have told are missing."
    return [f"nvidia-smi {said}. {fix}"]
