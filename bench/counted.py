#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# About: parts of GPUs that Kubernetes counts: Allocate, 40 pods at once, scheduling, a burst
"""Each part is a module bench/counted_*.py. PARTS: only these (PARTS="allocate job40")."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import counted_claims  # noqa: E402
import counted_order  # noqa: E402
import counted_sums  # noqa: E402

PARTS = {"allocate": counted_sums.allocate, "job40": counted_sums.job40, "rate": counted_sums.rate, "burst": counted_claims.burst,
         "claim_rate": counted_claims.claim_rate, "stranded": counted_order.stranded}


def main():
    for name in os.environ.get("PARTS", " ".join(PARTS)).split():
        PARTS[name]()


if __name__ == "__main__":
    main()
