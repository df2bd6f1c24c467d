#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: torch_job.py GIB STEPS: a job of PyTorch that keeps GIB of device memory and passes over all of it in each of STEPS steps.

Prints a line per step when the device has done it, and in the end the sum of all that it kept, which is exact: whatever happens to its
memory meanwhile, the same words give the same checksum. Between the passes it multiplies matrices, as training does.
"""
import sys
import time

import torch

BLOCK = 16 << 20  # words of 4 bytes
MATRIX, PRODUCTS = 4096, 20


def main():
    gib, steps = float(sys.argv[1]), int(sys.argv[2])
    blocks = [torch.full((BLOCK,), i, dtype=torch.int32, device="cuda") for i in range(int(gib * (1 << 30)) // (4 * BLOCK))]
    weights = torch.randn(MATRIX, MATRIX, dtype=torch.bfloat16, device="cuda") / MATRIX ** 0.5
    values = torch.randn(MATRIX, MATRIX, dtype=torch.bfloat16, device="cuda")
    torch.cuda.synchronize()
    print(f"ready {len(blocks) * 4 * BLOCK}", flush=True)
    began = time.monotonic()
    for step in range(steps):
        for block in blocks:
            block.mul_(1664525).add_(1013904223 + step)
        for _ in range(PRODUCTS):
            values = weights @ values
        torch.cuda.synchronize()
        print(f"step {step} {time.monotonic() - began:.3f}", flush=True)
    took = time.monotonic() - began
    total = sum(int(block.sum(dtype=torch.int64)) for block in blocks)
    print(f"torch_job ok checksum={total & 0xffffffffffffffff:016x} seconds={took:.3f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
