# SPDX-License-Identifier: Apache-2.0
"""A node that serves metrics, and programs in its pods: for tests of the metrics."""
import contextlib
import http.client
import os
import re
import subprocess
import sys

from node import BUILD, Node, PATIENCE, free_port

SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """A node that serves them; `node`: one that serves them at that port already, and that its owner closes."""

    def __init__(self, node=None, port=None, **config):
        self.port = port or free_port()
        self.node = node or Node(metrics=f"127.0.0.1:{self.port}", **config)

    def text(self):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        client.request("GET", "/metrics")
        return client.getresponse().read().decode()

    def rows(self, name):
        """(labels, value) of each sample of that name."""
        found = [SAMPLE.match(line) for line in self.text().splitlines() if line.startswith((name + "{", name + " "))]
        return [(dict(LABEL.findall(row[2] or "")), float(row[3])) for row in found]

    def of(self, name, **labels):
        """The only value with these labels, or None."""
        found = [value for row, value in self.rows(name) if labels.items() <= row.items()]
        assert len(found) < 2, found
        return found[0] if found else None

    def steady(self, pod, *words, device=0):
        """A program in that pod, whose device it is."""
        return self.steady_in(self.node.folder_of(pod.title()), *words, device=device)

    @contextlib.contextmanager
    def steady_in(self, folder, *words, device=0):
        """A program of the tenant that is joined in that folder."""
        environment = dict(os.environ, METE_SOCKET=folder + "/guest.sock", METE_DRIVER=sys.argv[2],
                           LD_LIBRARY_PATH=BUILD + "/guest/12.9/lib",
                           CUDA_VISIBLE_DEVICES=self.node.uuid[device], **self.node.environment)
        program = subprocess.Popen([BUILD + "/examples/steady", "seconds=600", *words, "kernel_us=5000"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        try:
            yield program
        finally:
            program.kill()
            program.wait()
            program.stdin.close()

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.node.close(why[0])
