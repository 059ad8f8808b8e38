"""Names of C++ as compilers write them into object files (Itanium ABI), read back into C++.

Profilers that record launches themselves give kernels by these names. What is read here is the name with its template
arguments; the types of its parameters follow from them and are left out. https://itanium-cxx-abi.github.io/cxx-abi
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_LONGEST = 8_000
"""Characters of a name that is read, and of the longest part of one: a few letters can stand for very much."""
_DEEPEST = 120
_SUFFIX = re.compile(r"(?: ?\[clone [^\]]*\]|\.[A-Za-z_][\w.]*| \(\.kd\))+$")
_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
_BUILTIN_D = {
    "Dn": "decltype(nullptr)", "Da": "auto", "Dc": "decltype(auto)", "Dh": "half", "Di": "char32_t", "Ds": "char16_t",
    "Du": "char8_t", "Df": "decimal32", "Dd": "decimal64", "De": "decimal128",
}  # fmt: skip
_SUFFIXES = {"unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll", "unsigned long long": "ull"}
_STANDARD = {
    "t": "std", "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream",
    "o": "std::ostream", "d": "std::iostream",
}  # fmt: skip
_OPERATORS = {
    "nw": "new", "na": "new[]", "dl": "delete", "da": "delete[]", "ps": "+", "ng": "-", "ad": "&", "de": "*", "co": "~",
    "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "an": "&", "or": "|", "eo": "^", "aS": "=", "pL": "+=",
    "mI": "-=", "mL": "*=", "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=", "eO": "^=", "ls": "<<", "rs": ">>",
    "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "nt": "!",
    "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",", "pm": "->*", "pt": "->", "cl": "()", "ix": "[]",
    "qu": "?", "ss": "<=>",
}  # fmt: skip
_UNARY = frozenset({"ps", "ng", "ad", "de", "co", "nt"})


@lru_cache(maxsize=4096)
def demangled(name: str) -> str | None:
    """``ns::kernel<float, 4>`` for ``_ZN2ns6kernelIfLi4EEEvPT_``; None for what is no such name, or cannot be read."""
    if not name.startswith("_Z") or len(name) > _LONGEST:
        return None
    try:
        return _Reader(_SUFFIX.sub("", name)[2:]).name_of_function()
    except (_Unreadable, IndexError, RecursionError):
        return None


class _Unreadable(Exception):
    """Not a mangled name, or one with something that kernels do not have."""


class _Type(str):
    """A type, or the end of one that goes around what it names: ``void (*`` and ``)(int)``."""

    right: str
    parameter: int | None
    """Of a template: which one it is. What it stands for depends on where it is named again."""

    def __new__(cls, left: str, right: str = "", parameter: int | None = None) -> _Type:
        made = super().__new__(cls, left)
        made.right, made.parameter = right, parameter
        if len(left) + len(right) > _LONGEST:
            raise _Unreadable
        return made

    @property
    def text(self) -> str:
        return f"{self}{self.right}"


class _Reader:
    """Reads one name from left to right, with what ``S_`` and ``T_`` refer to."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.known: list[_Type] = []
        self.arguments: list[str] = []

    def name_of_function(self) -> str:
        """The name alone; its parameters are not read."""
        return self._name()

    # Letters

    def _peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def _take(self, word: str) -> bool:
        if self.text.startswith(word, self.at):
            self.at += len(word)
            return True
        return False

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise _Unreadable

    def _number(self) -> int:
        match = re.compile(r"\d{1,9}").match(self.text, self.at)
        if not match:
            raise _Unreadable
        self.at = match.end()
        return int(match[0])

    def _sequence(self) -> int:
        """``_`` is 0, ``0_`` is 1, and so on in base 36."""
        match = re.compile(r"([0-9A-Z]{0,6})_").match(self.text, self.at)
        if not match:
            raise _Unreadable
        self.at = match.end()
        return int(match[1], 36) + 1 if match[1] else 0

    def _count(self) -> int:
        """Which of several without a name: ``_`` is the first, ``0_`` the second, ``10_`` the twelfth."""
        match = re.compile(r"(\d{0,6})_").match(self.text, self.at)
        if not match:
            raise _Unreadable
        self.at = match.end()
        return int(match[1]) + 2 if match[1] else 1

    def _until_end(self, read: Callable[[], str]) -> list[str]:
        """What ``read`` gives until an E, which is taken."""
        found: list[str] = []
        while not self._take("E"):
            if self.at >= len(self.text):
                raise _Unreadable
            found.append(read())
        return found

    def _remember(self, text: str | _Type) -> _Type:
        kept = text if isinstance(text, _Type) else _Type(text)
        self.known.append(kept)
        return kept

    # Names

    def _encoding(self) -> str:
        """A function or an object, as what surrounds a local name."""
        outer, self.arguments = self.arguments, []
        name = self._name()
        constant = self._constant
        if self.at < len(self.text) and self._peek() != "E":
            if name.endswith(">") and not re.search(r"operator[<>=-]+$", name):
                self._type()  # what it returns
            types = []
            while self.at < len(self.text) and self._peek() != "E":
                types.append(self._type().text)
            name += f"({'' if types == ['void'] else ', '.join(types)})"
            if constant:
                name += " const"
        self._constant = False
        self.arguments = outer
        return name

    _constant = False
    """Whether the member function read last was const."""

    def _name(self) -> str:
        self._constant = False
        if self._take("N"):
            return self._nested()
        if self._take("Z"):
            return self._local()
        if self._peek() == "S" and self._peek(2) != "St":
            name = self._substitution().text
        else:
            name = ("std::" if self._take("St") else "") + self._unqualified()
            if self._peek() == "I":
                self._remember(name)
        return _followed(name, self._template_arguments(keep=True)) if self._peek() == "I" else name

    def _nested(self) -> str:
        constant = False
        while self._peek() in ("r", "V", "K"):
            constant = self._take("K") or not self._take(self._peek())
        self._take("R") or self._take("O")
        name, scope = "", ""
        while not self._take("E"):
            if self._peek() == "I":
                name = _followed(name, self._template_arguments(keep=True))
            elif self._peek() == "S" and self._peek(2) != "St":
                name = self._substitution().text
                scope = _last(name)
                continue
            elif self._peek() == "T":
                name = self._parameter()
            elif self._peek(2) in ("C1", "C2", "C3", "D0", "D1", "D2"):
                name += f"::{'~' if self._peek() == 'D' else ''}{scope}"
                self.at += 2
            elif self._take("St"):
                name = "std"
                continue
            elif self._take("M"):
                continue  # of a data member whose value the next part stands in
            else:
                scope = self._unqualified()
                name = f"{name}::{scope}" if name else scope
            self._remember(name)
        if self.known and self.known[-1] == name:
            self.known.pop()
        self._constant = constant
        return name

    def _local(self) -> str:
        outer = self._encoding()
        self._need("E")
        if self._take("s"):
            name = "string literal"
        else:
            if self._take("d"):
                self._count()
            name = self._name()
        constant = self._constant
        if self._take("__"):
            self._number()
            self._need("_")
        elif self._peek() == "_" and self._peek(2)[1:].isdigit():
            self.at += 2
        self._constant = constant
        return f"{outer}::{name}"

    def _unqualified(self) -> str:
        self._take("L")
        here = self._peek(2)
        if here == "Ut":
            self.at += 2
            name = f"{{unnamed type#{self._count()}}}"
        elif here == "Ul":
            self.at += 2
            types = self._until_end(lambda: self._type().text)
            name = f"{{lambda({'' if types == ['void'] else ', '.join(types)})#{self._count()}}}"
        elif here[:1].isdigit():
            length = self._number()
            name = self.text[self.at : self.at + length]
            if len(name) < length or not length:
                raise _Unreadable
            self.at += length
            if re.match(r"_GLOBAL_[_.$]N", name):
                name = "(anonymous namespace)"
        elif here == "cv":
            self.at += 2
            name = f"operator {self._type().text}"
        elif here in _OPERATORS:
            self.at += 2
            name = f"operator{' ' * _OPERATORS[here][0].isalpha()}{_OPERATORS[here]}"
        else:
            raise _Unreadable
        while self._take("B"):
            length = self._number()
            name += f"[abi:{self.text[self.at : self.at + length]}]"
            self.at += length
        return name

    def _substitution(self) -> _Type:
        self._need("S")
        letter = self._peek()
        if letter in _STANDARD:
            self.at += 1
            return _Type(_STANDARD[letter])
        number = self._sequence()
        if number >= len(self.known):
            raise _Unreadable
        found = self.known[number]
        return found if found.parameter is None else self._stands_for(found.parameter)

    def _parameter(self) -> _Type:
        self._need("T")
        return self._stands_for(self._sequence())

    def _stands_for(self, parameter: int) -> _Type:
        # A lambda with a parameter of type auto refers to nothing that is named.
        known = parameter < len(self.arguments)
        return _Type(self.arguments[parameter] if known else "auto", parameter=parameter)

    def _template_arguments(self, *, keep: bool) -> str:
        self._need("I")
        found = self._until_end(self._template_argument)
        if keep:
            self.arguments = found
        listed = ", ".join(argument for argument in found if argument)
        return str(_Type(f"<{listed}>"))

    def _template_argument(self) -> str:
        if self._peek() == "L":
            return self._literal()
        if self._take("X"):
            found = self._expression()
            self._need("E")
            return found
        if self._take("J"):
            return ", ".join(self._until_end(self._template_argument))
        return self._type().text

    def _literal(self) -> str:
        self._need("L")
        if self._take("_Z"):
            found = self._encoding()
            self._need("E")
            # A function, whose parameters say nothing more.
            return f"&{found[: found.index('(')] if found.endswith(')') else found}"
        kind = self._type().text
        end = self.text.index("E", self.at) if "E" in self.text[self.at :] else -1
        value = self.text[self.at : end]
        if end < 0 or not re.fullmatch(r"n?[0-9a-f]*", value):
            raise _Unreadable
        self.at = end + 1
        value = value.replace("n", "-", 1)
        if kind == "bool":
            return {"0": "false", "1": "true"}.get(value, value)
        if kind == "int":
            return value
        if kind.startswith("decltype(nullptr"):
            return "nullptr"
        return value + _SUFFIXES[kind] if kind in _SUFFIXES else f"({kind}){value}"

    def _expression(self) -> str:
        """Of the kinds of expressions those that depend on few others."""
        here = self._peek(2)
        if here[:1] == "L":
            return self._literal()
        if here[:1] == "T":
            return self._parameter()
        if here in ("sr", "st", "sz", "sZ"):
            self.at += 2
            if here == "st":
                return f"sizeof ({self._type().text})"
            if here == "sr":
                scope, member = self._type().text, self._unqualified()
                more = self._template_arguments(keep=False) if self._peek() == "I" else ""
                return f"{scope}::{member}{more}"
            return f"sizeof{'...' * (here == 'sZ')}({self._expression()})"
        if here in _UNARY:
            self.at += 2
            inner = self._expression()
            return inner if here == "ad" and inner.startswith("&") else f"{_OPERATORS[here]}({inner})"
        if here in _OPERATORS and here not in ("cl", "qu", "ix", "nw", "na", "dl", "da"):
            self.at += 2
            return f"({self._expression()}) {_OPERATORS[here]} ({self._expression()})"
        raise _Unreadable

    # Types

    def _type(self) -> _Type:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _Unreadable
        try:
            return self._any_type()
        finally:
            self.depth -= 1

    def _any_type(self) -> _Type:
        letter = self._peek()
        if letter in _BUILTIN and letter:
            self.at += 1
            return _Type(_BUILTIN[letter])
        if letter == "D":
            return self._extended()
        if letter == "S" and self._peek(2) != "St":
            found = self._substitution()
            if self._peek() != "I":
                return found
            return self._remember(found.text + self._template_arguments(keep=False))
        if letter == "T":
            found = self._remember(self._parameter())
            if self._peek() != "I":
                return found
            return self._remember(found.text + self._template_arguments(keep=False))
        return self._remember(self._compound())

    def _extended(self) -> _Type:
        here = self._peek(2)
        self.at += 2
        if here in _BUILTIN_D:
            return _Type(_BUILTIN_D[here])
        if here == "Dp":
            return self._remember(self._type())
        if here == "DF":
            bits = self._number()
            self._need("b") if self._peek() == "b" else self._need("_")
            return _Type(f"_Float{bits}" if self.text[self.at - 1] == "_" else f"std::bfloat{bits}_t")
        if here == "Dv":
            length = self._number()
            self._need("_")
            return self._remember(f"{self._type().text} __vector({length})")
        if here == "Do":
            return self._remember(self._compound())
        raise _Unreadable

    def _compound(self) -> _Type:
        letter = self._peek()
        if letter in ("r", "V", "K"):
            words = ""
            while self._peek() in ("r", "V", "K"):
                words = {"r": " __restrict__", "V": " volatile", "K": " const"}[self._peek()] + words
                self.at += 1
            inner = self._type()
            return _Type(inner + words, inner.right)
        if letter in ("P", "R", "O"):
            self.at += 1
            return _behind(self._type(), {"P": "*", "R": "&", "O": "&&"}[letter])
        if letter == "F":
            self.at += 1
            self._take("Y")
            result = self._type()
            types = [t for t in self._until_end(self._parameter_type) if t]
            return _Type(result.text, f" ({'' if types == ['void'] else ', '.join(types)})")
        if letter == "A":
            self.at += 1
            size = "" if self._peek() == "_" else str(self._number())
            self._need("_")
            inner = self._type()
            return _Type(str(inner), f" [{size}]{inner.right.lstrip()}")
        if letter == "M":
            self.at += 1
            owner, inner = self._type().text, self._type()
            return _behind(inner, f"{owner}::*")
        if letter == "u":
            self.at += 1
            return _Type(self._unqualified())
        return _Type(self._class())

    def _parameter_type(self) -> str:
        if self._peek(2) in ("RE", "OE"):
            self.at += 1
            return ""
        return self._type().text

    def _class(self) -> str:
        """A class or an enumeration; what ``T_`` meant outside it means the same behind it."""
        outer = self.arguments
        name = self._name()
        self.arguments = outer
        self._constant = False
        return name


def _behind(inner: _Type, mark: str) -> _Type:
    """A pointer or reference to ``inner``; one to a function or an array goes between."""
    if not inner.right:
        # A reference to a reference is the lesser of both.
        if mark.startswith("&") and inner.endswith("&"):
            return _Type(inner[:-1] if mark == "&" and inner.endswith("&&") else str(inner))
        return _Type(inner + mark)
    if inner.right.startswith(")"):
        return _Type(inner + mark, inner.right)
    # Of a function (*)(int), of an array (*) [4].
    return _Type(f"{inner} ({mark}", ")" + (inner.right.lstrip() if inner.right.startswith(" (") else inner.right))


def _followed(name: str, arguments: str) -> str:
    return f"{name}{' ' * name.endswith('<')}{arguments}"


def _last(name: str) -> str:
    """The last part of a qualified name, without its template arguments."""
    return re.sub(r"<.*", "", name, flags=re.DOTALL).rpartition("::")[2]
