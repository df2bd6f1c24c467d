# SPDX-License-Identifier: Apache-2.0
"""Usage: python3 check_arrows.py ROOT: includes follow the `arrows` block of ROOT/docs/ARCHITECTURE.md; tools/check arrows runs it.

A row names a folder, then those that it may include. The rooms of a folder (its subfolders) may have rows of their own: a file
belongs to the row with the longest prefix of its path. A folder that a row names stands for its rooms too, except for the rooms of
that same folder: these name each other one by one, and by the folder's own name only the files that are in no room.
"""
import os
import re
import sys

ELSEWHERE = ("tests", "bench", "examples")  # the product includes nothing of them
NO_PRODUCT = (*ELSEWHERE, "tools", "deploy", "docs", "build")
SOURCES = (".c", ".h", ".S", ".def", ".py")


def arrows():
    with open("docs/ARCHITECTURE.md", encoding="utf-8") as page:
        block = re.search(r"```arrows\n(.*?)```", page.read(), re.S).group(1)
    return {words[0]: set(words[1:]) for words in map(str.split, block.splitlines()) if words}


def prefixes(path):
    """The folders above a path, the longest first."""
    while path := os.path.dirname(path):
        yield path


def row_of(path, rows):
    return next((folder for folder in prefixes(path) if folder in rows), None)


def is_allowed(own, other, rows):
    if other == own or other in rows[own]:
        return True
    family = {own, *prefixes(own)}
    return any(folder in rows[own] and folder not in family for folder in prefixes(other))


def included(where):
    """(line number, path from the root) of each include that is ours."""
    with open(where, encoding="utf-8", errors="replace") as text:
        for number, line in enumerate(text, 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match:
                beside = os.path.normpath(os.path.join(os.path.dirname(where), match.group(1)))
                yield number, beside if os.path.isfile(beside) else match.group(1)


def sources():
    for top in sorted(os.listdir(".")):
        if top in NO_PRODUCT or top.startswith("."):
            continue
        for folder, _, names in os.walk(top):
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(SOURCES))


def faults(rows):
    for folder in rows:
        for name in {folder, *rows[folder]}:
            if not os.path.isdir(name):
                yield f"docs/ARCHITECTURE.md: an arrow names {name}/, which does not exist"
    divided = {prefix for folder in rows for prefix in prefixes(folder)}
    without = set()
    for where in sources():
        own = row_of(where, rows)
        if own is None or own in divided and os.path.dirname(where) != own:
            without.add(os.path.dirname(where))
            continue
        for number, path in included(where):
            other = row_of(path, rows)
            if path.split("/")[0] in ELSEWHERE and "/" in path:
                yield f"{where}:{number}: product code includes {path.split('/')[0]}/"
            elif other and not is_allowed(own, other, rows):
                yield f"{where}:{number}: {own}/ may not include {other}/"
    for folder in sorted(without):
        yield f"docs/ARCHITECTURE.md: no arrow for {folder}/"


def main():
    os.chdir(sys.argv[1])
    found = list(faults(arrows()))
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
