# SPDX-License-Identifier: Apache-2.0
"""meson's record of the tests that it ran (testlog.json: one text line of JSON a test), and a test's own output."""
import json
import os
import re

GOOD = ("OK", "EXPECTEDFAIL", "SKIP")


def read(path):
    """The rows of a log; OSError where there is none."""
    with open(path) as file:
        return [json.loads(line) for line in file if line.strip()]


def name_of(row):
    """As `meson test` takes it."""
    return row["name"].split(" / ")[-1]


def output_of(row):
    return (row.get("stdout") or "") + (row.get("stderr") or "")


def is_bad(row):
    return row["result"] not in GOOD


def functions_that_failed(row):
    """Those that the program names: cmocka's, and runner.py's."""
    return list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([A-Za-z_]\S*)$", output_of(row), re.M)))


def first_words(row):
    """A failed test's first words about its failure, in one text line."""
    output = output_of(row)
    said = re.search(r"^\[  ERROR   \] --- (.*)", output, re.M)  # cmocka
    place = re.search(r"^\[   LINE   \] --- (\S+?): error", output, re.M)
    if said:
        return " ".join(filter(None, (said[1].strip(), place and f"({place[1]})")))
    # Python: the line below its traceback. Sanitizers: their headline.
    said = re.search(r"^Traceback .*\n(?:[ \t].*\n|\n)*(\S.*)", output, re.M) or re.search(r"^.*(?:ERROR: |WARNING: |runtime error: ).*", output, re.M)
    if said:
        return (said[1] if said.re.groups else said[0]).strip()[:300]
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"{row['result'].lower()}: {lines[-1][:300]}" if lines else f"{row['result'].lower()}, without a word"


def seed_of(row, usual):
    """The seed that its random histories began with."""
    given = (row.get("env") or {}).get("METE_SEED") if isinstance(row.get("env"), dict) else None
    said = re.search(r"METE_SEED=(\d+)", output_of(row))
    return said[1] if said else given or usual


def keep(row, folder, label):
    """Its whole output, in a file of its own. Returns the file's name."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, re.sub(r"[^\w.-]+", "_", f"{label}-{name_of(row)}.log"))
    with open(path, "w") as file:
        file.write(f"{label} {row['name']}: {row['result']} after {row['duration']:.0f} s\n{' '.join(row.get('command', ()))}\n")
        file.write((row.get("stdout") or "") + "\n---- stderr\n" + (row.get("stderr") or ""))
    return path
