# SPDX-License-Identifier: Apache-2.0
"""meted with its page on a Unix socket."""
from meted import *
import web


class Shown(Daemon):
    def __init__(self, *options, role="--user", **more):
        more.setdefault("place", tempfile.mkdtemp(prefix="mete-"))
        os.makedirs(more["place"], mode=0o700, exist_ok=True)
        self.page = more["place"] + "/page.sock"
        super().__init__("--page", "unix:" + self.page, *options, role=role, **more)

    def ask(self, path, **more):
        return web.ask(self.page, path, **more)
