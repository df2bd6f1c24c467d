# SPDX-License-Identifier: Apache-2.0
"""PTX texts of ours, and NVIDIA's compiler over them."""
import ast
import os
import re
import subprocess
import tempfile

TEXT = re.compile(rb"\.version [0-9]+\.[0-9]+\n\s*\.target sm_[0-9]+[^\0]*")


def in_programs(build):
    """text -> where it was found: in everything that was built for this machine, as the loader would see it."""
    found = {}
    for at, folders, files in os.walk(build):
        folders[:] = sorted(name for name in folders if not name.endswith(".p") and name not in ("kubernetes", "meson-logs", "meson-private"))
        for path in (os.path.join(at, name) for name in sorted(files)):
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            content = open(path, "rb").read(4)
            if path.endswith(".ptx"):
                found.setdefault(open(path).read(), path)
            elif content == b"\x7fELF":
                for text in TEXT.findall(open(path, "rb").read()):
                    found.setdefault(text.decode("ascii", "replace"), path)
    return found


def in_scripts(root):
    """The same of Python's programs. Those that are made of parts are not seen."""
    found = {}
    for at, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in (".git", "build"))
        for path in (os.path.join(at, name) for name in sorted(files) if name.endswith(".py")):
            source = open(path).read()
            if ".target sm_" not in source:
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and TEXT.match(node.value.strip().encode()):
                    found.setdefault(node.value.strip() + "\n", path)
    return found


def target_of(text):
    return int(re.search(r"\.target sm_([0-9]+)", text)[1])


def compiled(ptxas, text, target, keep=None):
    """'' where ptxas takes it, or its first complaint. `keep`: the file of machine code."""
    with tempfile.TemporaryDirectory(prefix="mete-ptx-") as place:
        with open(place + "/text.ptx", "w") as file:
            file.write(text)
        done = subprocess.run([ptxas, f"-arch=sm_{target}", "text.ptx", "-o", keep or "code"], cwd=place, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=600)
    if done.returncode == 0:
        return ""
    said = done.stdout + done.stderr
    found = re.search(r"(?:error|fatal)\s*: (.*)", said)
    return found[1] if found else said.strip()[:200] or f"it ends with {done.returncode}"


def merged(texts):
    """Many texts as one, where each has one kernel k: a compiler takes longer to start than to read them."""
    head, lines, seen = texts[0].splitlines()[:3], [], set()
    for n, text in enumerate(texts):
        for line in text.splitlines()[3:]:
            if re.match(r"\.(const|global) ", line):
                if line in seen:
                    continue
                seen.add(line)
            lines.append(line.replace(".entry k(", f".entry k{n}("))
    return "\n".join(head + lines) + "\n"


def complaints(ptxas, texts, target):
    """text -> complaint, of those that ptxas refuses. By halves, where something among them is refused."""
    if not texts:
        return {}
    said = compiled(ptxas, merged(texts) if len(texts) > 1 else texts[0], target)
    if not said:
        return {}
    if len(texts) == 1:
        return {texts[0]: said}
    middle = len(texts) // 2
    return complaints(ptxas, texts[:middle], target) | complaints(ptxas, texts[middle:], target)
