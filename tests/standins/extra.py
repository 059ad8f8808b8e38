"""Counter definitions handed over with --extra-counters: both file layouts, read strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .launches import Launch, channels, count, event_of, is_event, split


class Refused(Exception):
    """The definitions, or a counter, that the library would not take."""


@dataclass(frozen=True)
class Counter:
    """A counter that can be collected: the registers it takes and the event, with what is done to it."""

    name: str
    event: str
    slots: frozenset[str]
    instance: tuple[int, int] | None = None
    """XCC and instance picked by select()."""
    accumulated: bool = False

    def value(self, target: str, launched: Launch, xccs: int) -> float:
        if self.accumulated:
            return count(target, f"{self.event}_ACCUM", launched)
        if self.event.startswith("SQ_ACCUM_PREV"):
            return 0.0
        whole = count(target, self.event, launched)
        if self.instance is None:
            return whole
        xcc, channel = self.instance
        shares = split(split(whole, xccs)[xcc], channels(target))
        return shares[channel]


def plain(target: str, name: str) -> Counter | None:
    """A counter of the target's own definitions: an event, or its sum over the instances."""
    if "[" in name or not is_event(target, name):
        return None
    event = event_of(name)
    return Counter(name, event, frozenset({event}))


def definitions(text: str, target: str, *, nested: bool) -> dict[str, Counter]:
    """The counters that a file defines for ``target``; ``nested`` is the layout of version 1.0 and later."""
    content = read_yaml(text)
    found = _nested(content) if nested else _flat(content)
    counters = {}
    for name, architectures, expression in found:
        if target in architectures:
            counters[name] = _counter(name, expression, target)
    return counters


def _nested(content: Any) -> list[tuple[str, list[str], str]]:
    try:
        block = content["rocprofiler-sdk"]
        if block["counters-schema-version"] != 1:
            raise Refused(f"counters-schema-version {block['counters-schema-version']!r} is not 1")
        return [
            (counter["name"], definition["architectures"], definition["expression"])
            for counter in block["counters"]
            if (counter["description"], counter["properties"]) is not None
            for definition in counter["definitions"]
        ]
    except (KeyError, TypeError) as error:
        raise Refused(f"not the layout rocprofiler-sdk: counters: ...: {error!r}") from error


def _flat(content: Any) -> list[tuple[str, list[str], str]]:
    try:
        return [
            (name, names.split("/"), body["expression"])
            for name, entry in content.items()
            if entry["description"] is not None
            for names, body in entry["architectures"].items()
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise Refused(f"not the layout NAME: architectures: ...: {error!r}") from error


def _counter(name: str, expression: str, target: str) -> Counter:
    """The forms of expression that the stand-in can work out; arithmetic is not among them."""
    text = re.sub(r"\s+", "", expression)
    if inner := re.fullmatch(r"reduce\((.+),(sum|max|min|avr)\)", text):
        text = inner[1]
    if found := re.fullmatch(r"accumulate\((\w+),(HIGH_RES|LOW_RES|NONE)\)", text):
        event = _known(target, found[1], name)
        return Counter(name, event, frozenset({event, f"{event}@accumulate"}), accumulated=True)
    if found := re.fullmatch(r"select\((\w+),\[(.+)\]\)", text):
        axes = dict(re.findall(r"DIMENSION_(\w+)=\[(\d+)\]", found[2]))
        if set(axes) - {"XCC", "INSTANCE"}:
            raise Refused(f"{name}: the stand-in does not know the dimensions {sorted(axes)}")
        event = _known(target, found[1], name)
        picked = (int(axes.get("XCC", 0)), int(axes.get("INSTANCE", 0)))
        return Counter(name, event, frozenset({event}), instance=picked)
    if re.fullmatch(r"\w+", text):
        event = _known(target, text, name)
        return Counter(name, event, frozenset({event}))
    raise Refused(f"{name}: the stand-in cannot work out {expression!r}")


def _known(target: str, event: str, name: str) -> str:
    if not is_event(target, event):
        raise Refused(f"{name}: {event} is no counter of {target}")
    return event_of(event)


def read_yaml(text: str) -> Any:
    """The content of such a file."""
    import yaml  # most runs need none of it

    try:
        return yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise Refused(f"no YAML: {error}") from error
