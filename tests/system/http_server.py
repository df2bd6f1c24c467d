# SPDX-License-Identifier: Apache-2.0
"""The HTTP server below the API servers that tests play: a thread for each connection, and silent."""
import http.server
import socket
import socketserver
import threading


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # a peer that leaves is no news


class SilentHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


class Server6(Server):
    address_family = socket.AF_INET6


def serve(handler, port=0, host="127.0.0.1", **known):
    """Serves in a thread of its own, on any port if it is 0. Handlers find `known` at their `server`."""
    server = (Server6 if ":" in host else Server)((host, port), handler)
    for name, value in known.items():
        setattr(server, name, value)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    return server
