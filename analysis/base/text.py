"""Make untrusted text (from profiles, arguments, programs) safe to display, without hidden characters or markup.

Hidden characters are defined once, as code points: Python and SQL remove the same ones at import, and every answer
passes through ``inert``. C++ names stay unchanged: only markup that a renderer would act on is escaped, visibly, and
``names_displayed_as`` recognises a name by its escaped form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import tomli

ANSI = r"(?:\x1b\[|\x9b)[0-9;:?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b"
"""Terminal escape sequences; an unfinished one extends to the end."""

_ANSI = re.compile(ANSI)
_RANGES: dict[str, list[list[int]]] = tomli.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _characters(kind: str, form: str = "\\U{:08x}-\\U{:08x}") -> str:
    """The ranges of text.toml for a class of characters in a regular expression."""
    return "".join(form.format(*each) for each in _RANGES[kind])


_HIDDEN = re.compile(f"[{_characters('hidden')}{_characters('surrogates')}]+")
_CONTROLS = re.compile(f"[{_characters('controls')}]")
_CONTROLS_IN_A_LINE = re.compile(f"(?![\n\t])[{_characters('controls')}]")

_ACTIVE_ELEMENTS = (
    "acronym|address|applet|area|article|aside|audio|base|basefont|bdi|bdo|bgsound|big|blink|blockquote|body|br|button|"
    "canvas|caption|center|col|colgroup|command|content|datalist|dd|del|details|dfn|dialog|dir|dl|dt|embed|fieldset|"
    "figcaption|figure|font|footer|form|frame|frameset|h[1-6]|head|header|hgroup|hr|html|iframe|img|input|ins|isindex|"
    "keygen|legend|li|link|listing|marquee|math|menu|menuitem|meta|meter|multicol|nav|nextid|nobr|noembed|noframes|"
    "noscript|ol|optgroup|picture|plaintext|portal|pre|progress|rb|rp|rt|rtc|ruby|samp|script|search|select|slot|small|"
    "spacer|strike|strong|style|svg|table|tbody|td|template|textarea|tfoot|th|thead|title|tr|tt|ul|video|wbr|xmp|"
    "animate|animatemotion|animatetransform|circle|clippath|defs|desc|ellipse|fe[a-z]+|foreignobject|"
    "lineargradient|mpath|polygon|polyline|radialgradient|textpath|tspan|maction|mglyph|mtext|annotation-xml"
)
"""Elements of HTML, SVG and MathML that have an effect without any attribute."""
_PLAIN_ELEMENTS = (
    "a|abbr|b|cite|code|data|em|i|image|kbd|label|line|main|map|mark|marker|mask|metadata|object|option|output|p|param|"
    "path|pattern|q|rect|s|section|set|source|span|stop|sub|summary|sup|switch|symbol|filter|g|text|time|track|u|use|"
    "var|view"
)
"""Elements that have no effect without attributes and whose names occur in C++ types: std::plus<data>, f<T>."""
_TARGET = (
    r"\s{0,20}<?\s{0,20}(?:[a-z][a-z0-9+.\-]{0,40}\\?:(?!:)|[/\\?#%@]|\.\.?/|&\#?\w{1,32};|[\w+.\-]{0,60}(?:[/?%@\\]|&\#?\w{1,32};)"
    r"|[\w\-]{1,60}\.[a-z])"
)
"""The target of a link, as opposed to function parameters: operator[](std::size_t)."""
_ACTIVE = re.compile(
    rf"""
      (?P<tag> <
        (?= [/?]                                              # no name of C++ has a closing tag
          | !(?:--|\[CDATA|doctype)
          | (?<!\w<)!                                         # a declaration hides what it holds; f<!b> is C++
          | (?:{_ACTIVE_ELEMENTS})(?:[\s/>]|\Z)
          | (?<!\w<)(?:{_PLAIN_ELEMENTS})(?:[\s/>]|\Z)
          | [a-z][^\s<>/]*[\s/][^<>]*?(?<![\w:@.\-])[a-z_:@][\w:@.\-]*\s*=(?!=)   # any element with an attribute
          | [a-z][a-z0-9+.\-]{{1,31}}:(?!:)                   # <scheme:...>
          | [\w.+\-]{{1,64}}@
        ))
    | (?P<image> !(?=\[))
    | (?P<link> \](?=\({_TARGET}))
    | (?P<definition> \](?=:(?!:){_TARGET}))
    | (?P<scheme> (?<!rooflens)(?<!\bs3)\\?:\\?/(?=\\?/))
    | (?P<www> (?<!\w)www\\?\.(?=\w))
    | (?P<reference> &(?!(?:lt|amp);)(?=\#?\w{{1,32}};))      # what it stands for would be read after us
    """,
    re.VERBOSE | re.IGNORECASE,
)


def visible(text: str) -> str:
    """``text`` on one line, without terminal sequences and hidden characters, with control characters as spaces."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub(" ", _HIDDEN.sub("", _ANSI.sub("", text)))


def visible_lines(text: str) -> str:
    """``text`` like ``visible``, but with its line breaks and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS_IN_A_LINE.sub(" ", _HIDDEN.sub("", _ANSI.sub("", text.replace("\r\n", "\n"))))


def inert(text: str) -> str:
    """``text`` without hidden characters, with markup that a renderer would act on visibly escaped.

    The function is idempotent.
    """
    return _ACTIVE.sub(_escape_markup, visible_lines(text))


def _escape_markup(match: re.Match[str]) -> str:
    kind, text = match.lastgroup, match[0]
    if kind == "tag":
        return "&lt;"
    if kind == "reference":
        return "&amp;"
    if kind == "scheme":
        return f"[{text}]"
    if kind == "www":
        return f"{text[:3]}[.]"
    return text + "\\"


def visible_sql(expression: str) -> str:
    """SQL that does the same as ``visible``. DuckDB strings contain no surrogates."""
    hidden, controls = (_characters(kind, "\\x{{{:X}}}-\\x{{{:X}}}") for kind in ("hidden", "controls"))
    bare = f"regexp_replace({expression}, '{ANSI}', '', 'g')"
    return f"regexp_replace(regexp_replace({bare}, '[{hidden}]', '', 'g'), '[{controls}]', ' ', 'g')"


def names_displayed_as(name: str, known: Sequence[str]) -> list[str]:
    """The names in ``known`` that equal ``name`` or are displayed as it, so that names can be copied from answers."""
    if name in known:
        return [name]
    displayed = displayed_name(name)
    return [each for each in known if displayed_name(each) == displayed]


def displayed_name(name: str) -> str:
    """A name as displayed in text and tables, the same for all its forms."""
    return inert(name).replace("\\|", "|").replace("\n", " ").strip()


def shorten(text: str, limit: int) -> str:
    """``text``, or its beginning with the number of omitted characters."""
    return text if len(text) <= limit else f"{text[:limit].rstrip()}... [{len(text) - limit:,} more characters]"


_CPP_WORDS = """
unsigned signed long short int char float double bool void const volatile struct class union enum typename
template operator auto decltype restrict anonymous namespace half static inline extern global launch bounds
host device kernel lambda"""
_TYPES = frozenset(_CPP_WORDS.split())
_WORDS = re.compile(r"(?<!\w)[^\W\d_]{2,20}(?:[,;]?[ \u00a0\u2000-\u200a\u202f\u205f\u3000][^\W\d_]{1,20}(?!\w)){5,}")
_MOST_READ = 4000
"""How many characters of a text are examined."""
_EXPONENT = 1e15
"""Numbers from here on are written with an exponent."""
_UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3))
MOST_OF_TIME = 20.0
"""Speed-ups above this factor are not worth a number: nearly all of the time vanishes."""
_MANY = 6
"""From this number of consecutive plain words on, a text is a sentence and not the name of a kernel or device."""
_ORDERS = re.compile(
    r"(?:ignore|disregard|forget|override|bypass)[\W_]+(?:all|any|the|your|these|those|previous|prior|above|earlier|my)\b"
    r"|(?:previous|prior|above|system|new)[\W_]+(?:instruction|prompt|message)s?"
    r"|\byou[\W_]+(?:are|must|should|shall|will|can|may|need)\b|\bdo[\W_]+not[\W_]+(?:tell|say|mention|ask|reveal|show)"
    r"|\b(?:assistant|system|user)\s*:(?!:)",
    re.IGNORECASE,
)
_FOREIGN = re.compile(r"(?:(?![\x00-\x7f])[^\W\d_]){10,}")


def reads_like_a_sentence(text: str) -> bool:
    """Whether text from a profile reads like a sentence or an instruction rather than a name."""
    text = text[:_MOST_READ]
    if _ORDERS.search(text) or _FOREIGN.search(text):
        return True
    return any(
        sum(word.strip(",;").lower() not in _TYPES for word in run[0].split()) >= _MANY for run in _WORDS.finditer(text)
    )


def first_few(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first ``most`` texts, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def figure(value: float, digits: int = 4) -> str:
    """A number for reading: its significant digits, but whole numbers and the places before the decimal point in full.

    ``0.123456`` is 0.1235, ``48951.27`` is 48951, and from 1e15 on there is an exponent.
    """
    if abs(value) < _EXPONENT and (value.is_integer() or abs(value) >= 10**digits):
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def short_time(ns: float, digits: int = 3) -> str:
    """A time with a few digits in a suitable unit."""
    unit, size = next(((unit, size) for unit, size in _UNITS if ns >= size), ("ns", 1.0))
    return f"{ns / size:.{digits}g} {unit}"


def gain_text(expected: float | None, at_most: float | None) -> str:
    """How many times as fast something becomes, as expected and at most, for parentheses; empty if both are unknown.

    Factors above ``MOST_OF_TIME`` have no number: they depend on how little would remain.
    """
    texts = []
    if expected is not None:
        texts.append("most of its time" if expected > MOST_OF_TIME else f"about x {expected:.3g} expected")
    if at_most is not None and not (expected or 0.0) > MOST_OF_TIME:
        texts.append("up to most of its time" if at_most > MOST_OF_TIME else f"at most x {at_most:.3g}")
    return ", ".join(texts)


def count_text(n: int, one: str, more: str = "") -> str:
    """A number with a noun: ``1 kernel``, ``2 kernels``, ``2 copies``, ``2 launches``.

    ``more`` is the plural form if it is not regular: ``row has``, ``rows have``.
    """
    plural = (
        f"{one[:-1]}ies"
        if one.endswith("y") and one[-2] not in "aeiou"
        else f"{one}{'es' if one.endswith(('ch', 's')) else 's'}"
    )
    return f"{n:,} {one if n == 1 else more or plural}"
