# SPDX-License-Identifier: Apache-2.0
"""Usage: python3 check_paths.py ROOT: every path that README.md, docs/*.md and the comments of sources name is there; tools/check paths
runs it.

A path is a word of `code` that begins with a folder of the tree; * stands for what it stands for in a shell, and MODULE, NAME and VERB
stand for any. Built files (build/) are not checked. The targets of relative links count, too. In a row of a table that begins with a folder, a file
of C without one is that folder's. In a source, a path is a word that begins with a folder and ends as files of sources do; words in capitals
stand for any.
"""
import glob
import os
import re
import sys


def named(page, folders):
    """(line number, path as it is written, path from the root)."""
    with open(page, encoding="utf-8") as file:
        text = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), file.read(), flags=re.M | re.S)
    for code in re.finditer(r"`([^`\n]+)`", text):
        for word in code[1].split():
            word = word.strip("(),;:").rstrip(".")
            if word.split("/")[0] in folders and "/" in word and re.fullmatch(r"[\w./*-]+", word):
                yield text.count("\n", 0, code.start()) + 1, word, re.sub("MODULE|NAME|VERB", "*", word)
    for row in re.finditer(r"^\| `([\w/]+)/` \|(.*)", text, re.M):
        for word in re.findall(r"`(\w+\.(?:c|h|def|S))`", row[2]):
            yield text.count("\n", 0, row.start()) + 1, f"{row[1]}/{word}", f"{row[1]}/{word}"
    for link in re.finditer(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", text):
        yield text.count("\n", 0, link.start()) + 1, link[1], os.path.join(os.path.dirname(page), link[1])


def sources(folders):
    for folder in sorted(folders):
        for place, _, files in os.walk(folder):
            yield from (os.path.join(place, name) for name in sorted(files) if name.endswith((".c", ".h", ".def", ".py")))


def named_by_source(source, folders):
    """Likewise."""
    word = re.compile(r"(?<![\w/.<\"-])(?:" + "|".join(folders) + r")/[\w/.-]+\.(?:c|h|def|py|md|sh|S|cu)\b")
    with open(source, encoding="utf-8", errors="replace") as file:
        for line, text in enumerate(file, 1):
            for path in word.findall(text) if "#include" not in text else []:
                yield line, path, re.sub("[A-Z][A-Z_]{3,}", "*", path)


def main():
    os.chdir(sys.argv[1])
    # A build's folder has a file of meson's that says so.
    folders = {name for name in os.listdir(".") if os.path.isdir(name) and not os.path.exists(f"{name}/build.ninja")} - {"build", ".git"}
    found = [f"{page}:{line}: there is no {word}" for page in ["README.md", *sorted(glob.glob("docs/*.md"))]
             for line, word, path in named(page, folders) if not glob.glob(path)]
    found += [f"{source}:{line}: there is no {word}" for source in sources(folders - {"docs"})
              for line, word, path in named_by_source(source, folders) if not glob.glob(path)]
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
