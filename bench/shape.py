#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: how well the source keeps its shape: circles of includes, long files, complex functions
"""Counts what makes the product's source hard to find one's way in. It reads the working tree, and builds nothing.

A module is a .c and a .h of the same name in one folder. A circle is a strongly connected set of modules: each includes each other,
perhaps by way of others of them. Complexity is McCabe's (each case of a switch counts), as pmccabe of Debian sees it before macros
are expanded. Lines are all lines, comments too. Tables (.def) are no files here, and tests are counted apart.
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOST_LINES, MOST_COMPLEXITY = 500, 15
TESTS = ("tests", "bench", "examples")


def folders():
    """The folders of the product: the first column of the arrows, without what is below another one of them."""
    with open("docs/ARCHITECTURE.md", encoding="utf-8") as page:
        block = re.search(r"```arrows\n(.*?)```", page.read(), re.S).group(1)
    return sorted({line.split()[0].split("/")[0] for line in block.splitlines() if line.split()})


def listed(places, endings):
    found = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *places], capture_output=True, text=True, check=True).stdout
    return sorted(path for path in set(found.splitlines()) if path.endswith(endings) and os.path.isfile(path))


def includes(paths):
    """Which module includes which others."""
    modules = {os.path.splitext(path)[0]: set() for path in paths}
    for path in paths:
        module, folder = os.path.splitext(path)[0], os.path.dirname(path)
        with open(path, encoding="utf-8") as text:
            for other in re.findall(r'^\s*#\s*include\s+"([^"]+)\.h"', text.read(), re.M):
                for name in (other, os.path.normpath(os.path.join(folder, other))):
                    if name in modules and name != module:
                        modules[module].add(name)
    return modules


def circles(graph):
    """The strongly connected components of more than one module (Tarjan's algorithm), the largest first."""
    found, index, low, stack = [], {}, {}, []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


def long_files(paths):
    for path in paths:
        with open(path, "rb") as text:
            lines = text.read().count(b"\n")
        if lines > MOST_LINES:
            yield lines, path


def complex_functions(paths):
    """(complexity, file, function), the most complex first."""
    if not shutil.which("pmccabe"):
        sys.exit("shape: pmccabe is missing: tools/setup test installs it")
    rows = subprocess.run(["pmccabe", *paths], capture_output=True, text=True, check=False).stdout.splitlines()
    if len(rows) < len(paths):
        sys.exit(f"shape: pmccabe found {len(rows)} functions in {len(paths)} files: it has not read them")
    for row in sorted((row.split("\t") for row in rows), key=lambda row: int(row[1]), reverse=True):
        if int(row[1]) > MOST_COMPLEXITY:
            place, name = row[5].split(": ", 1)
            yield int(row[1]), place.split("(")[0], name


def main():
    os.chdir(ROOT)
    product = folders()
    code = listed(product, (".c", ".h"))
    found = circles(includes(code))
    for circle in found:
        print(f"circle of {len(circle)}: {' '.join(circle)}")
    long = sorted(long_files(listed(product, (".c", ".h", ".py"))), reverse=True)
    for lines, path in long:
        print(f"{lines} lines: {path}")
    functions = list(complex_functions([path for path in code if path.endswith(".c")]))
    for complexity, path, name in functions:
        print(f"complexity {complexity}: {name}() in {path}")
    most = {}
    for circle in found:
        folder = circle[0].split("/")[0]
        most[folder] = max(most.get(folder, 0), len(circle))
    for folder in sorted(most):
        print(f"figure: include_circle_{folder} {most[folder]} modules")
    print(f"figure: include_circle_most {len(found[0]) if found else 1} modules")
    print(f"figure: files_over_500 {len(long)} files")
    print(f"figure: test_files_over_500 {len(list(long_files(listed(TESTS, ('.c', '.h', '.py')))))} files")
    print(f"figure: complex_functions {len(functions)} functions")
    print(f"figure: complex_functions_ptx {sum(path.startswith('sim/ptx/') for _, path, _ in functions)} functions")


if __name__ == "__main__":
    main()
