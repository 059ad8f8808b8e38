"""Short names of kernels for display: without namespaces, wrappers and parameters, but still distinct.

Short names are only displayed. Full names are compared, selected and stored.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from .database import connect
from .problems import BadArgument, LimitExceeded, near
from .text import count_text, displayed_name, names_displayed_as

SHORT = 64
"""The intended maximum number of characters of a short name; parts with little information are omitted first."""
_LONGEST = 20_000
"""The number of characters of a name that are examined."""
_DEEPEST = 12
"""The depth of nested template arguments that is examined."""
_OPEN, _CLOSE = "<([{", ">)]}"
_CLONE_SUFFIX = re.compile(r"(?: \[clone [^\]]*\]| \(\.kd\)|\.kd)+$")
_CONFIGURATION = re.compile(r" \[(?:\d+|\?) ?[x/] ?(?:\d+|\?)[^\[\]]*\]$")
"""A suffix that distinguishes launches of one kernel."""
_BECAME = " -> "
_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}|`anonymous namespace'|\(anonymous\)")
_LAMBDA = re.compile(r"[\[{]lambda\b|'lambda\d*'")
_COMPARISON_OPERATOR = re.compile(r"\boperator\s*(?:<=>|<<=?|>>=?|<=?|>=?|->\*?)\s*")
"""Operators whose names look like brackets."""
_NOT_IN_CPP = re.compile(r"[^\w\s<>(),:*&\[\]{}#'~.$+/=!|^%-]")
"""Characters that do not occur in C++ names."""
_RESULT_TYPE = re.compile(r"[\w\s:<>,*&()~'{}#\[\]-]*")
_FUNCTION_NAME = re.compile(r"operator\W{0,3}|operator \w[\w ]*|[\w$.~]+")
"""The result type and the name of a function; other text is not shortened."""
_NUMBER = re.compile(r"(?:\(([\w: ]+)\))?(-?\d+)(?:u|l|ul|ll|ull)?")
_QUALIFIERS = re.compile(r"(?<=.)(?:\s*(?:(?<!\w)(?:const|volatile|__restrict__)|[&*]))+$", re.DOTALL)
"""What follows a type; only pointers and references matter for its name."""
_ELEMENT_TYPE = re.compile(
    r"(?:(?:un)?signed |long |short )*(?:void|bool|char|short|int|long|float|double|half|auto|unsigned|signed|wchar_t)"
    r"(?: (?:int|long|char|short|double))*|__int128|_Float\d+|std::bfloat16_t|__half2?|__nv_bfloat162?|__hip_bfloat16|"
    r"(?:[\w:]*::)?(?:BFloat16|Half|Float8_\w+|half_t|bfloat16_t|tfloat32_t|float_e\dm\d\w*|fp8_\w+|u?int\d+_t|"
    r"(?:float|double|u?int|u?char|u?short|u?long|half)[1-4])"
)
"""Types of elements."""
_PLUMBING = re.compile(
    r"(?:array|Array|tuple|identity|integral_constant|allocator|\w*OffsetCalculator|(?:Load|Store)With(?:out)?Cast|"
    r"TensorList\w*Metadata|\w*Policy\w*|\w*_policy|\w*[Cc]onfig|default_config|\w*_config_\w+|ScanTileState|"
    r"target_arch|integer_sequence|index_sequence|integer_subbyte|Layout|Stride|char_traits|\w*_iterator|\w*Iterator|\w*_iterator_t|"
    r"ArgIndexInputIterator|empty_type|NullType|enable_if\w*|is_\w+)"
)
"""Classes for data or settings, which rarely describe what a kernel computes."""
_WRAPPERS = re.compile(
    r"(?:gpu_kernel_impl\w*|opmath_\w*gpu_kernel\w*|ReduceOp|func_wrapper_t|\w*[Ww]rapped\w*|\w*[Ww]rapper\w*|Parallel(?:For|"
    r"Reduce|Scan)|Kernel2?|device_kernel|unary_transform_f|binary_transform_f|for_each_f|__apply_functor|"
    r"agent_launcher|ParallelForAgent|parallel_for|_kernel_agent)"
)
"""Wrapper classes and functions around the one that describes what is computed."""
_LIBRARY_NOISE = (
    (re.compile(r"^cudnn_generated_(?:fort_)?(?:native_)?"), "cudnn_"),
    (re.compile(r"(?<=tilesize)(\d+x\d+x\d+)_(?:cluster|warpgroup)size.*$"), r"\1"),
    (re.compile(r"_execute_(?:segment|split)_k_\w*?kernel__\w+$|_execute_kernel__\w+$"), ""),
    (re.compile(r"_kernel\d+_\d+$"), ""),
    # In Triton before 3.0, this suffix states which arguments were divisible by 16, or equal to 1.
    (re.compile(r"_0d1[dec\d]*$"), ""),
    (re.compile(r"_kernel__5x_cu\w+$"), ""),
)
_TENSILE = re.compile(r"Cijk_\w+?_MT\d")
_TILE = re.compile(r"MT\d+x\d+x\d+|MI\d+x\d+x\d+|GSU\d+|WG\d+_\d+_\d+")


def short(name: str) -> str:
    """The short name of one kernel; use ``distinct`` for several kernels."""
    if behind := _CONFIGURATION.search(name):
        return short(name[: behind.start()]) + behind[0]
    forms = _forms(name)
    return next((form for form in forms if len(form) <= SHORT), _leave_out_middle(forms[-1]))


def near_kernels(pattern: str, names: Iterable[str]) -> str:
    """A sentence that suggests kernels with similar names, in their short form; empty if there are none.

    A full name has parameters, so that no word that somebody types is similar to it.
    """
    return near(pattern, distinct(names).values())


def distinct(names: Iterable[str]) -> dict[str, str]:
    """Full name -> short name. Names that would be equal keep more of their arguments, so all short names differ."""
    unique = list(dict.fromkeys(names))
    short_names = {name: short(name) for name in unique}
    # Each round gives equal names a longer form. It ends at the latest with the full names, which differ.
    while clashes := [group for group in _group_by_form(short_names) if len(group) > 1]:
        for group in clashes:
            longer = {name: _longer_form(name, short_names[name]) for name in group}
            if all(longer[name] == short_names[name] for name in group):
                return {name: name for name in unique}
            short_names.update(longer)
    return short_names


def names_shortened_to(written: str, names: Iterable[str]) -> list[str]:
    """The ``names`` that have ``written`` as one of their shorter forms, so that names can be copied from answers."""
    shown_form = displayed_name(written)
    return [name for name in names if shown_form in map(displayed_name, _all_forms(name))]


def _all_forms(name: str) -> tuple[str, ...]:
    if behind := _CONFIGURATION.search(name):
        return tuple(form + behind[0] for form in _all_forms(name[: behind.start()]))
    forms, plain = _forms(name), _CLONE_SUFFIX.sub("", name[:_LONGEST])
    functions = (re.split(r"[<(]", text, maxsplit=1)[0] for text in (_without_result(plain), forms[-1]))
    return (*forms, _leave_out_middle(forms[-1]), plain, *filter(None, functions))


def _group_by_form(short_names: dict[str, str]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for name, form in short_names.items():
        groups.setdefault(form, []).append(name)
    return list(groups.values())


def _longer_form(name: str, form: str) -> str:
    """The next longer form; after the last one, the full name."""
    if behind := _CONFIGURATION.search(name):
        return _longer_form(name[: behind.start()], form.removesuffix(behind[0])) + behind[0]
    forms = [*reversed(_forms(name)), name]
    later = [each for each in forms if len(each) > len(form)] if form not in forms else forms[forms.index(form) + 1 :]
    return next((each for each in later if each != form), name)


@lru_cache(maxsize=4096)
def _forms(name: str) -> tuple[str, ...]:
    """Increasingly short forms of the name, the longest first."""
    if _BECAME in name:
        # A kernel name with a suffix.
        sides = [_forms(side) for side in name.split(_BECAME)]
        return tuple(
            _BECAME.join(side[min(step, len(side) - 1)] for side in sides) for step in range(max(map(len, sides)))
        )
    plain = _CLONE_SUFFIX.sub("", name[:_LONGEST]).strip()
    if _TENSILE.match(plain):
        return (_tensile(plain),)
    if not re.search(r"[<(:]", plain):
        bare = plain
        for noise, instead in _LIBRARY_NOISE:
            bare = noise.sub(instead, bare)
        return (bare or plain,)
    known = _COMPARISON_OPERATOR.sub("operator", _ANONYMOUS.sub("", plain))
    result = known.removesuffix(_without_result(known))
    parts = _parse_part(known)
    if _NOT_IN_CPP.search(known) or not (_RESULT_TYPE.fullmatch(result) and _FUNCTION_NAME.fullmatch(parts.name)):
        return (plain,)
    steps = accumulate(_SHORTENING, lambda part, leave_out: leave_out(part), initial=parts)
    return tuple(dict.fromkeys(_text(part, top=True) for part in steps))


def _tensile(name: str) -> str:
    """The problem and the tile of a matrix product of Tensile: Cijk_Ailk_Bjlk_S_B MT128x64x16 MI32x32x2."""
    head = "_".join(re.split(r"_MT\d", name)[0].split("_")[:5])
    return " ".join([head, *_TILE.findall(name)])


def _leave_out_middle(form: str) -> str:
    """A name whose middle is omitted, because no part of it can be."""
    return form if len(form) <= 2 * SHORT else f"{form[: SHORT + 20]}...{form[-20:]}"


# The structure of a name


@dataclass
class _NamePart:
    """A class, function, lambda or value in a name: its own name and its template arguments."""

    name: str
    arguments: list[_NamePart]
    mark: str = ""

    def holding(self, arguments: Iterable[_NamePart]) -> _NamePart:
        """The same part with other arguments."""
        return _NamePart(self.name, list(arguments), self.mark)

    @property
    def plain(self) -> bool:
        """Whether it is a type of elements, or a value."""
        return bool(self.value or _ELEMENT_TYPE.fullmatch(self.name))

    @property
    def value(self) -> bool:
        return bool(re.fullmatch(r"-?\d+|true|false|\w+::\w+|&.*", self.name))

    @property
    def plumbing(self) -> bool:
        return bool(_PLUMBING.fullmatch(self.name)) or self.name in ("", "void", "nullptr")


def _parse_part(text: str, depth: int = 0) -> _NamePart:
    """Parse a name, type or value within a name."""
    text = text.strip()
    number = _NUMBER.fullmatch(text)
    if number:
        kind, value = number[1], number[2]
        return _NamePart({"0": "false", "1": "true"}.get(value, value) if kind == "bool" else value, [])
    mark = ""
    if qualifiers := _QUALIFIERS.search(text):
        text, mark = text[: qualifiers.start()], re.sub(r"[^&*]", "", qualifiers[0])
    text = re.sub(r"^(?:const|volatile|struct|class|enum) ", "", text)
    if _ELEMENT_TYPE.fullmatch(text):
        return _NamePart(text.rpartition("::")[2], [], mark)
    components = _components(_without_result(text))
    lambdas = [c for c in components if _LAMBDA.match(c)]
    plain_components = [c for c in components if not _LAMBDA.match(c) and not c.startswith("operator")]
    # For a lambda, the surrounding function is more informative; for a member, its class.
    component = _outermost_function(plain_components) if lambdas else (plain_components or components or [text])[-1]
    base, arguments = _arguments(component)
    part = _NamePart(base, [_parse_part(a, depth + 1) for a in arguments] if depth < _DEEPEST else [], mark)
    if lambdas and not part.arguments:
        parameters = lambdas[-1].partition("(")[2]
        types = _split_list(parameters[: _closing_bracket("(" + parameters) - 1])
        part.mark = (
            f"({', '.join(_parse_part(t, depth + 1).name for t in types)})" if types and depth < _DEEPEST else ""
        )
    return part


def _outermost_function(named: list[str]) -> str:
    """The first part of a name around a lambda that has parameters or template arguments, or else the last part."""
    return next((c for c in named if "(" in c or "<" in c), named[-1] if named else "lambda")


def _arguments(component: str) -> tuple[str, list[str]]:
    """Parse one component of a name, with its template arguments and without its parameters."""
    base = re.split(r"[<(]", component, maxsplit=1)[0]
    rest = component[len(base) :]
    if not rest.startswith("<"):
        return base.strip(), []
    end = _closing_bracket(rest)
    return base.strip(), _split_list(rest[1:end])


def _without_result(text: str) -> str:
    """The name and parameters of a function without its return type."""
    last = 0
    for at, letter, depth in _letters(text):
        if depth == 0 and letter == "(":
            break
        if depth == 0 and letter == " " and not text.startswith("operator", last):
            last = at + 1
    return text[last:]


def _components(text: str) -> list[str]:
    """Split a name at each ``::`` outside of brackets."""
    components, begin = [], 0
    for at, letter, depth in _letters(text):
        if depth == 0 and letter == ":" and text.startswith("::", at):
            components.append(text[begin:at])
            begin = at + 2
    components.append(text[begin:])
    return [c.removesuffix(" const").strip() for c in components if c.strip() not in ("", "const")]


def _split_list(text: str, mark: str = ",") -> list[str]:
    """Split a list of arguments at its commas, or at another mark."""
    items, begin = [], 0
    for at, letter, depth in _letters(text):
        if depth == 0 and letter == mark:
            items.append(text[begin:at])
            begin = at + 1
    items.append(text[begin:])
    return [part.strip() for part in items if part.strip()]


def _letters(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield every character with its position and nesting depth; a bracket itself has the depth outside of it."""
    depth = 0
    for at, letter in enumerate(text):
        arrow = letter == ">" and at and text[at - 1] == "-"
        if letter in _CLOSE and not arrow:
            depth = max(0, depth - 1)
        yield at, letter, depth
        if letter in _OPEN:
            depth += 1


def _closing_bracket(text: str) -> int:
    """The position where the bracket at the beginning is closed, or the end of the text."""
    return next((i for i, letter, depth in _letters(text) if i and letter in _CLOSE and depth == 0), len(text))


# Increasingly short forms


def _text(part: _NamePart, *, top: bool = False) -> str:
    listed = ", ".join(_text(a) for a in part.arguments)
    # The parameters of a lambda belong to its name. Pointers do not matter for a kernel.
    mark = "" if top and not part.mark.startswith("(") else part.mark
    return f"{part.name}<{listed}>{mark}" if listed else f"{part.name}{mark}"


def _filter_arguments(part: _NamePart, keep: Callable[[_NamePart], bool]) -> _NamePart:
    arguments = [a for a in part.arguments if keep(a)] or part.arguments[:1]
    return part.holding(_filter_arguments(a, keep) for a in arguments)


def _without_wrappers(part: _NamePart) -> _NamePart:
    """Replace wrappers by the first part of them that describes what is computed."""
    arguments = [_without_wrappers(a) for a in part.arguments]
    if _WRAPPERS.fullmatch(part.name) and (inside := next((a for a in arguments if not (a.plain or a.plumbing)), None)):
        return inside
    return part.holding(arguments)


def _functors_only(part: _NamePart) -> _NamePart:
    arguments = [a for a in part.arguments if not a.plain] or [a for a in part.arguments if not a.value]
    return part.holding({_text(a): a for a in arguments}.values())


_SHORTENING: tuple[Callable[[_NamePart], _NamePart], ...] = (
    lambda part: _filter_arguments(part, lambda a: not a.plumbing),
    _without_wrappers,
    lambda part: part.holding(_filter_arguments(a, lambda inner: not inner.value) for a in part.arguments),
    lambda part: part.holding(a.holding(()) for a in part.arguments),
    _functors_only,
    lambda part: part.holding(part.arguments[:1]),
)
"""Steps that shorten a name one after the other: without plumbing, wrappers, inner values, all that is inner, plain
types, and all arguments but the first."""


PATTERN_LENGTH = 1000
"""Maximum length of a regular expression. Full names and ranks are not regular expressions and may be longer."""
_MOST_QUOTED = 80
_FIRST_BATCH = 20_000
"""How many characters of names are searched first; the amount then grows while searching is fast."""
_QUICK_S, _MOST_S = 0.05, 3.0


def select_names(written: str, names: Sequence[str]) -> list[str]:
    """The ``names`` that ``written`` denotes, in their order: those it names exactly, or else those that match it.

    Each alternative of ``a|b`` is looked up by itself: where it is a name, or the short name of a single kernel, it is
    not a pattern, so that ``kernel_1`` does not mean ``kernel_10``. A list ``a,b`` denotes the same if no name has that
    comma and each part denotes something. Raises as ``matching`` does.
    """
    # Text with template arguments is more likely a name from an answer than a pattern.
    if exact := names_displayed_as(written, names) or ("<" in written and names_shortened_to(written, names)):
        return exact
    matches = matching(written, names)
    parts = _split_list(written)
    if not matches and len(parts) > 1 and all(select_names(part, names) for part in parts):
        return select_names("|".join(parts), names)
    named = {part: _exact_names(part, matches) for part in _split_list(written, "|")}
    chosen = {name for found in named.values() for name in found}
    if chosen and (patterns := [part for part, found in named.items() if not found]):
        chosen.update(matching("|".join(patterns), matches))
    return [name for name in matches if name in chosen or not chosen]


def _exact_names(written: str, names: Sequence[str]) -> list[str]:
    """The ``names`` equal to ``written``, or the only one with this short name."""
    # Whole words are examined first because they are found faster than short names.
    whole = re.compile(rf"(?<!\w){re.escape(written)}(?!\w)")
    candidates = [name for name in names if whole.search(name)]
    same = names_shortened_to(written, candidates)
    return names_displayed_as(written, candidates) or (same if len(same) == 1 else [])


def matching(pattern: str, names: Sequence[str]) -> list[str]:
    """The ``names`` that contain a match of ``pattern``, in their order.

    The syntax is that of RE2, which has no backtracking, so that no pattern takes exponential time. Raises BadArgument
    for an invalid pattern and LimitExceeded for one that takes too long.
    """
    if len(pattern) > PATTERN_LENGTH:
        raise BadArgument(
            f"The kernel pattern {_quote(pattern)} is too long",
            f"it has {count_text(len(pattern), 'character')}, and a regular expression may have {PATTERN_LENGTH}",
            "Give a part of the name, the full name, or a rank such as #1",
        )
    _search(pattern, [""])  # raises for an invalid pattern even if there are no names
    matches: list[str] = []
    start, batch, begun = 0, _FIRST_BATCH, time.monotonic()
    while start < len(names):
        end, size = start + 1, len(names[start])
        while end < len(names) and (size := size + len(names[end])) <= batch:
            end += 1
        at = time.monotonic()
        matches += _search(pattern, names[start:end])
        start, now = end, time.monotonic()
        batch *= 2 if now - at < _QUICK_S else 1
        if now - begun > _MOST_S and start < len(names):
            raise LimitExceeded(
                f"The kernel pattern {_quote(pattern)} takes too long",
                f"only {start} of {len(names)} names were searched in {_MOST_S:g} s",
                "Write fewer repetitions and alternatives, or use a rank such as #1",
            )
    return matches


def _search(pattern: str, names: Sequence[str]) -> list[str]:
    import duckdb

    with connect() as con:
        try:
            rows = con.execute(
                "SELECT i FROM (SELECT unnest($1) AS name, generate_subscripts($1, 1) AS i) "
                "WHERE regexp_matches(name, $2) ORDER BY i",
                [list(names), pattern],
            ).fetchall()
        except (duckdb.InvalidInputException, UnicodeEncodeError) as error:
            raise BadArgument(
                f"The kernel pattern {_quote(pattern)} is not a valid regular expression",
                str(error).partition(": ")[2] or str(error),
                "Escape special characters, or use a rank such as #1; lookahead, lookbehind, back references and "
                "possessive repeats are not supported (the syntax is RE2's)",
            ) from error
    return [names[i - 1] for (i,) in rows]


def _quote(pattern: str) -> str:
    return repr(pattern if len(pattern) <= _MOST_QUOTED else pattern[:_MOST_QUOTED] + "...")
