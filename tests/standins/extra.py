"""Counter definitions handed over with --extra-counters: both file layouts, read strictly."""

from __future__ import annotations

import json
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
    """The subset of YAML that such files use: maps, lists, plain and quoted scalars, and JSON."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    lines = [
        (len(line) - len(line.lstrip()), line.strip())
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if any("\t" in line for line in text.splitlines()):
        raise Refused("a tab in YAML")
    value, rest = _block(lines, lines[0][0] if lines else 0)
    if rest:
        raise Refused(f"YAML is not indented evenly at {rest[0][1]!r}")
    return value


_Lines = list[tuple[int, str]]


def _block(lines: _Lines, indent: int) -> tuple[Any, _Lines]:
    if lines and lines[0][1].startswith("-"):
        return _list(lines, indent)
    result: dict[str, Any] = {}
    while lines and lines[0][0] == indent and not lines[0][1].startswith("-"):
        found = re.fullmatch(r"(\"[^\"]*\"|'[^']*'|[^:\s][^:]*):(?:\s+(.*))?", lines[0][1])
        if not found:
            raise Refused(f"not a line of a YAML map: {lines[0][1]!r}")
        key, lines = str(_scalar(found[1])), lines[1:]
        if found[2]:
            result[key] = _scalar(found[2])
        elif lines and (lines[0][0] > indent or (lines[0][0] == indent and lines[0][1].startswith("-"))):
            result[key], lines = _block(lines, lines[0][0])
        else:
            result[key] = None
    return result, lines


def _list(lines: _Lines, indent: int) -> tuple[list[Any], _Lines]:
    result = []
    while lines and lines[0][0] == indent and lines[0][1].startswith("-"):
        rest = lines[0][1][1:]
        inner = rest.strip()
        if re.match(r"[\w\"'][^\"'{\[]*:(\s|$)", inner):
            nested = indent + 1 + len(rest) - len(rest.lstrip())
            value, lines = _block([(nested, inner), *lines[1:]], nested)
        else:
            value, lines = _scalar(inner), lines[1:]
        result.append(value)
    return result, lines


def _scalar(text: str) -> Any:
    """The value after a key or a dash: a word, a quoted text, or a flow list or map on one line."""
    value, rest = _flow(text.strip(), "")
    if rest.strip():
        raise Refused(f"YAML that the stand-in does not read: {text!r}")
    return value


def _flow(text: str, stops: str) -> tuple[Any, str]:
    """One value from the start of ``text``; a bare word ends at one of ``stops``."""
    if text.startswith('"'):
        value, end = json.JSONDecoder().raw_decode(text)
        return value, text[end:]
    if text.startswith("'"):
        found = re.match(r"'((?:[^']|'')*)'", text)
        if not found:
            raise Refused(f"a quote in YAML is not closed: {text!r}")
        return found[1].replace("''", "'"), text[found.end() :]
    if text.startswith(("[", "{")):
        return _collection(text)
    if text.startswith(("&", "*", "!", "|", ">", "%", "@", "`")):
        raise Refused(f"YAML that the stand-in does not read: {text!r}")
    found = re.match(f"[^{re.escape(stops)}]*" if stops else ".*", text)
    word = found[0] if found else ""
    rest = text[len(word) :]
    word = word.strip()
    return (int(word) if re.fullmatch(r"-?\d+", word) else word), rest


def _collection(text: str) -> tuple[Any, str]:
    """A flow list or map."""
    close, rest = ("]" if text[0] == "[" else "}"), text[1:].lstrip()
    items: list[Any] = []
    pairs: dict[str, Any] = {}
    while not rest.startswith(close):
        if not rest:
            raise Refused(f"{text!r} is not closed")
        if close == "}":
            key, rest = _flow(rest, ":")
            if not rest.lstrip().startswith(": "):
                raise Refused(f"a map of YAML without ': ' in {text!r}")
            pairs[str(key)], rest = _flow(rest.lstrip()[1:].lstrip(), ",}")
        else:
            value, rest = _flow(rest, ",]")
            items.append(value)
        rest = rest.lstrip()
        if rest.startswith(","):
            rest = rest[1:].lstrip()
        elif not rest.startswith(close):
            raise Refused(f"neither ',' nor {close!r} in {text!r}")
    return (pairs if close == "}" else items), rest[1:]
