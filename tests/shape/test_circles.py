#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No more than 4 modules include each other in a circle (decision 110); bench/shape.py counts."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import shape  # noqa: E402

MOST = 4


def too_large(graph):
    return [circle for circle in shape.circles(graph) if len(circle) > MOST]


def main():
    os.chdir(ROOT)
    # That it finds one: five modules, each of which includes the next.
    ring = {f"node/m{i}": {f"node/m{(i + 1) % 5}"} for i in range(5)}
    assert too_large(ring) == [sorted(ring)], too_large(ring)
    assert not too_large({**ring, "node/m4": set()})
    found = too_large(shape.includes(shape.listed(shape.folders(), (".c", ".h"))))
    for circle in found:
        print(f"{len(circle)} modules include each other, at most {MOST} may: {' '.join(circle)}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
