# SPDX-License-Identifier: Apache-2.0
"""The metrics of a pod of mete for a Prometheus beside the cluster, through the API server's proxy."""
import contextlib
import http.server
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            text, status = self.server.cluster.get(self.server.path), 200
        except Exception as error:  # of whatever kind: Prometheus asks again
            text, status = str(error), 502
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def address(cluster, namespace, pod, port):
    """HOST:PORT of this machine, at which that pod's /metrics is."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.cluster, server.path = cluster, f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/metrics"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
