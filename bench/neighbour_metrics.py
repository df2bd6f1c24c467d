# SPDX-License-Identifier: Apache-2.0
"""A reader of metrics beside others that drip a byte a second, and come again when they are sent away.

`python3 bench/neighbour_metrics.py` runs it alone; bench/neighbour.py calls measure(). A scrape counts as answered if its figures are
there within Prometheus's usual patience.
"""
import http.client
import os
import socket
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("METE_BUILD", ROOT + "/build/plain")
PATIENCE_S = 10  # Prometheus's scrape_timeout
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: "
# How many drip, and from which addresses: 127.0.0.1 is the reader's own.
ATTACKS = {"alone": (0, []), "32 drip": (32, ["127.0.0.1"]), "256 drip": (256, [f"127.0.0.{n}" for n in range(1, 9)])}


def drip(port, source, began):
    """A connection, whenever there is none: the head of a request, a byte a second."""
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 30, (source, 0)) as made:
                made.sendall(REQUEST)
                began.release()
                made.settimeout(1)
                while True:
                    made.sendall(b"a")
                    try:
                        made.recv(4096)
                        break  # it is sent away
                    except socket.timeout:
                        pass
        except OSError:
            pass


def drip_all(port, sources):
    began = threading.Semaphore(0)
    for source in sources:
        threading.Thread(target=drip, args=(port, source, began), daemon=True).start()
    for _ in sources:
        began.acquire()
    print("ready", flush=True)
    sys.stdin.read()


class Drippers:
    """In a process of their own: the reader's Python should not wait for theirs."""

    def __init__(self, port, count, sources):
        words = [str(port)] + [sources[i % len(sources)] for i in range(count)]
        self.process = subprocess.Popen([sys.executable, __file__, "drip", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def end(self):
        self.process.kill()
        self.process.communicate()


def scrape(port, path="/metrics"):
    """Milliseconds until it was answered, or None."""
    began = time.monotonic()
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        client.request("GET", path)
        answer = client.getresponse()
        text = answer.read()
        took = time.monotonic() - began
        return took * 1e3 if answer.status == 200 and text and took < PATIENCE_S else None
    except OSError:
        return None
    finally:
        client.close()


def measure(build=BUILD, scrapes=200):
    """Prints a row for each attack. Returns the figures: name -> (value, unit)."""
    sys.argv[1:] = [build + "/node/meted", build + "/sim/lib", build]
    for folder in "system", "plugin":
        sys.path.insert(0, f"{ROOT}/tests/{folder}")
    os.environ["LD_LIBRARY_PATH"] = build + "/plugin"
    from node import Node, free_port
    answered, alive, p99 = [], [], {}
    for name, (count, sources) in ATTACKS.items():
        ports = [free_port(), free_port()]
        with Node(metrics=f"127.0.0.1:{ports[0]}", health=f"127.0.0.1:{ports[1]}") as node:
            assert node
            drippers = Drippers(ports[0], count, sources)
            took = []
            for _ in range(scrapes):
                took.append(scrape(ports[0]))
                alive.append(scrape(ports[1], "/healthz"))
                time.sleep(0.05)
            drippers.end()
        good = sorted(ms for ms in took if ms is not None)
        p99[name] = good[int(len(good) * 0.99) - 1] if good else float("inf")
        if count:
            answered += took
        print(f"metrics, {name:<10} {len(good)} of {scrapes} scrapes answered, p99 {p99[name]:.1f} ms", flush=True)
    percent = lambda all: 100 * sum(ms is not None for ms in all) / len(all)
    return {"scrapes_answered_percent": (percent(answered), "percent"), "liveness_answered_percent": (percent(alive), "percent"),
            "scrape_p99_alone_ms": (p99["alone"], "ms"), "scrape_p99_ms": (max(p99.values()), "ms")}


if __name__ == "__main__" and sys.argv[1:2] == ["drip"]:
    drip_all(int(sys.argv[2]), sys.argv[3:])
elif __name__ == "__main__":
    for key, (value, unit) in measure(scrapes=int(os.environ.get("SCRAPES", 200))).items():
        print(f"figure: {key} {value:.1f} {unit}")
