# SPDX-License-Identifier: Apache-2.0
"""A reader at one of meted's doors, who is answered whatever is done there by others."""
import http.client
import os
import socket
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from meted import PATIENCE  # noqa: E402

SCRAPE_S, SCRAPE_PATIENCE_S = 1.0, 10  # how often it asks; Prometheus's usual patience


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.01)


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


class Scraper(threading.Thread):
    """Asks at a door that speaks TLS, as an allowed client, from an address of its own: `asked` has when, how long it took, and what was wrong (None:
    nothing)."""

    def __init__(self, port, path, certificate, headers):
        super().__init__(daemon=True)
        self.port, self.path, self.headers, self.asked, self.over = port, path, headers, [], False
        self.context = ssl.create_default_context(cafile=certificate)
        self.start()

    def ask(self):
        client = http.client.HTTPSConnection("localhost", self.port, timeout=PATIENCE, context=self.context)
        try:
            client.request("GET", self.path, headers=self.headers)
            answer = client.getresponse()
            text = answer.read()
            return None if answer.status == 200 and text else f"status {answer.status}"
        except (OSError, http.client.HTTPException) as error:
            return repr(error)
        finally:
            client.close()

    def run(self):
        while not self.over:
            began = time.monotonic()
            wrong = self.ask()
            self.asked.append((began, time.monotonic() - began, wrong))
            time.sleep(SCRAPE_S)

    def harmed(self, since, judge_time):
        """Of what was asked since then."""
        asked = [one for one in self.asked if one[0] >= since]
        missed = [wrong or "late" for _, took, wrong in asked if wrong or judge_time and took > SCRAPE_PATIENCE_S]
        if not judge_time:
            missed = missed if wait_for(lambda: self.asked[-1][0] >= since and not self.asked[-1][2], PATIENCE) is False else []
        if len(missed) * 100 > len(asked):
            return f"{len(missed)} of {len(asked)} of a reader's requests at {self.path} were not answered: {missed[0]}"
        return None
