# SPDX-License-Identifier: Apache-2.0
"""The part of a preprocessed C file that its own text reaches: a header that has got one more function is another header, and the files that do not
call the function are the same.
"""
import re

COMMENT_OR_BRACE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[{}]', re.S)
MARKER = re.compile(r'^# \d+ "((?:[^"\\]|\\.)*)".*$', re.M)
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[A-Za-z_]\w*|[(){};=\[]')
KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return short "
    "signed sizeof static struct switch typedef union unsigned void volatile while _Bool _Static_assert __attribute__ __asm__ __extension__ "
    "__inline __inline__ __restrict __restrict__ __const __signed__ __typeof__ __builtin_va_list".split())


class Declaration:
    """A declaration or definition outside of functions: where it is in the text, and what it is made of."""

    def __init__(self, begin):
        self.begin, self.end, self.tokens = begin, begin, []

    def names(self):
        return {word for word in self.tokens if word[0] == "_" or word[0].isalpha()} - KEYWORDS

    def introduces(self):
        """The names that others may know it by; rather too many than too few."""
        inside, found, last, kind, may_be_function = [], set(), "", "", self.tokens[0] != "typedef"
        named = False  # the first parentheses, which may hold the name, of a pointer to a function: those behind them hold its arguments
        for word in self.tokens:
            if word == "(" and not inside and may_be_function and last[:1].isidentifier() and last not in KEYWORDS:
                return {last}
            if word == "(":
                first = not inside and not named and last not in ("__attribute__", "__typeof__")
                named = named or first
                inside.append("name" if first or inside[-1:] == ["name"] else word)
            elif word == "{":
                inside.append("name" if kind == "enum" else word)
            elif word in ")}":
                inside.pop()
            elif word in "=[":
                may_be_function = may_be_function and inside != []
            elif inside[-1:] == ["name"] or "(" not in inside and ("{" not in inside or last in ("struct", "union", "enum")):
                found.add(word)
            kind = word if word in ("struct", "union", "enum") else "" if word == "{" else kind
            last = word
        return {word for word in found if word.isidentifier()} - KEYWORDS


def without_outer_comments(text):
    """A file's text without the parts that no check reads: comments between functions, and empty lines there. Within braces a comment may be about an
    argument, and its lines count for the function; what says that something is not to be found is kept anywhere, and unusual letters are.
    """
    pieces, outer, end, depth = [], [], 0, 0

    def flush():
        pieces.append(re.sub(r"\s*\n\s*", "\n", "".join(outer)))
        outer.clear()

    for match in COMMENT_OR_BRACE.finditer(text):
        word, into = match[0], pieces if depth else outer
        into.append(text[end:match.start()])
        end = match.end()
        into.append(" " if word[0] == "/" and not depth and "NOLINT" not in word and word.isascii() else word)
        depth += (word == "{") - (word == "}")
        if depth < 0:  # it is divided by #if, or no text in C
            return text
        if depth:
            flush()
    (pieces if depth else outer).append(text[end:])
    flush()
    return "".join(pieces)


def without_markers(text):
    """The text without the compiler's notes of where a line is from, and (offset in it, file) of each note."""
    pieces, places, end, length = [], [], 0, 0
    for marker in MARKER.finditer(text):
        pieces.append(text[end:marker.start()])
        length += marker.start() - end
        places.append((length, marker[1]))
        end = marker.end()
    return "".join([*pieces, text[end:]]), places


def declarations(text):
    found, current, depth, function = [], None, 0, False
    for match in TOKEN.finditer(text):
        word = match[0]
        current = current or Declaration(match.start())
        if word == "{" and depth == 0:
            function = current.tokens[-1:] == [")"]
        current.tokens.append(word)
        depth += (word in "({") - (word in ")}")
        if depth == 0 and (word == ";" or word == "}" and function):
            current.end = match.end()
            found.append(current)
            current, function = None, False
    if current:
        current.end = len(text)
        found.append(current)
    return found


def are_of(main, places, found):
    """The declarations of which a part is in the file `main` itself."""
    own, at, inside = [], 0, False
    for one in found:
        while at < len(places) and places[at][0] <= one.begin:
            inside = places[at][1] == main
            at += 1
        here, mine = at, inside
        while not mine and here < len(places) and places[here][0] < one.end:
            mine = places[here][1] == main
            here += 1
        if mine:
            own.append(one)
    return own


def reached(text, main):
    """The file's own declarations of a preprocessed text, and those of its headers that they need, as text."""
    text, places = without_markers(text)
    found = declarations(text)
    known = {}
    for one in found:
        for name in one.introduces():
            known.setdefault(name, []).append(one)
    todo = are_of(main, places, found)
    kept = set(todo)
    while todo:
        for name in todo.pop().names():
            for other in known.pop(name, ()):
                if other not in kept:
                    kept.add(other)
                    todo.append(other)
    return "\n".join(" ".join(text[one.begin:one.end].split()) for one in found if one in kept)
