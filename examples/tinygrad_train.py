# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with tinygrad's JIT (graphs) and prints a checksum of its weights.

tinygrad is a third-party framework, unmodified; it talks to the CUDA driver with PTX of its own.
"""
import hashlib
import sys

import numpy
from tinygrad import Context, Device, Tensor, TinyJit, nn


class Network:
    def __init__(self, random):
        def weight(*shape):
            return Tensor(random.uniform(-0.3, 0.3, shape).astype(numpy.float32))

        self.first, self.first_bias = weight(16, 64), weight(64)
        self.second, self.second_bias = weight(64, 8), weight(8)

    def __call__(self, x):
        return (x.dot(self.first) + self.first_bias).relu().dot(self.second) + self.second_bias


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    random = numpy.random.default_rng(7)
    network = Network(random)
    optimizer = nn.optim.SGD(nn.state.get_parameters(network), lr=0.05)
    inputs = random.uniform(-1, 1, (32, 16)).astype(numpy.float32)
    target = Tensor(inputs[:, :8] * inputs[:, 1:9])
    inputs = Tensor(inputs)

    @TinyJit
    def step():
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = (network(inputs) - target).square().mean()
            loss.backward()
            optimizer.step()
            return loss.realize()

    losses = [float(step().item()) for _ in range(steps)]
    digest = hashlib.sha256()
    for parameter in nn.state.get_parameters(network):
        digest.update(parameter.numpy().tobytes())
    if not losses[-1] < losses[0]:
        sys.exit(f"tinygrad: the loss went from {losses[0]} to {losses[-1]}: nothing was learned")
    print(f"tinygrad ok checksum={digest.hexdigest()[:16]} device={Device.DEFAULT} loss={losses[0]:.6f}->{losses[-1]:.6f}")


if __name__ == "__main__":
    main()
