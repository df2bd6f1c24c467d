# SPDX-License-Identifier: Apache-2.0
"""peer client|server SOCKET: Python's grpcio, which is gRPC's core in C++, against kube/grpc.h.
tests/kube/test_grpc_peers.py says what is expected of it."""

import os
import sys
import threading
from concurrent import futures

import grpc

LIMITS = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20),
          ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100),
          ("grpc.max_reconnect_backoff_ms", 100)]


def say(*words):
    print(*words, flush=True)


def must(what, good):
    if not good:
        say("not so:", what)
        os._exit(1)
    say("ok", what)


def run_client(socket):
    channel = grpc.insecure_channel("unix:" + socket, options=LIMITS)

    def ask(name, request, **options):
        return channel.unary_unary("/t/" + name)(request, **options)

    def refused(name, request, **options):
        try:
            ask(name, request, **options)
        except grpc.RpcError as error:
            return error.code(), error.details()
        return None, None

    must("echo", ask("Echo", b"hello") == b"hello")
    must("empty", ask("Echo", b"") == b"")
    most = b"x" * (4 << 20)
    must("4 MiB", ask("Echo", most) == most)
    must("too large", refused("Echo", most + b"x")[0] == grpc.StatusCode.RESOURCE_EXHAUSTED)
    must("refused", refused("Refuse", "9 100 % für 日本\n😀".encode()) ==
         (grpc.StatusCode.FAILED_PRECONDITION, "100 % für 日本\n😀"))
    must("unknown", refused("Nowhere", b"")[0] == grpc.StatusCode.UNIMPLEMENTED)
    must("big", ask("Big", b"16777216") == bytes(i * 7 % 256 for i in range(256)) * 65536)
    must("deadline", refused("Wait", b"deadline", timeout=0.05)[0] == grpc.StatusCode.DEADLINE_EXCEEDED)
    call = channel.unary_unary("/t/Wait").future(b"cancel")
    ask("Echo", b"")
    call.cancel()
    must("cancel", call.cancelled())

    calls = [channel.unary_unary("/t/Echo").future(b"%d" % i) for i in range(1000)]
    must("parallel", [call.result() for call in calls] == [b"%d" % i for i in range(1000)])
    must("count", list(channel.unary_stream("/t/Count")(b"1000")) == [b"%d" % i for i in range(1000)])
    watch = channel.unary_stream("/t/Watch")(b"")
    for _ in range(3000):
        ask("Push", b"")
    seen = state = 0
    for message in watch:
        state = int(message[:message.index(0)])
        seen += 1
        if state == 3000:
            break
    watch.cancel()
    must("latest", state == 3000 and seen < 1000)

    call = channel.unary_unary("/t/Wait").future(b"restart")
    ask("Echo", b"")
    say("restart it")
    must("goodbye", call.exception().code() == grpc.StatusCode.UNAVAILABLE)
    sys.stdin.readline()
    must("back", ask("Echo", b"back", wait_for_ready=True) == b"back")
    say("done")


class Methods(grpc.GenericRpcHandler):
    def service(self, details):
        run = {"/t/Echo": lambda request, context: request, "/t/Refuse": refuse, "/t/Wait": wait,
               "/t/Big": lambda request, context: b"\1" * int(request)}.get(details.method)
        return grpc.unary_unary_rpc_method_handler(run) if run else None


def refuse(request, context):
    code, text = request.decode().split(" ", 1)
    context.abort(next(known for known in grpc.StatusCode if known.value[0] == int(code)), text)


def wait(request, context):
    over = threading.Event()
    if not context.add_callback(over.set):
        over.set()  # on a busy machine it was over before this began
    say("called", request.decode())
    over.wait()
    say("gone", request.decode())
    return b""


def run_server(socket):
    server = grpc.server(futures.ThreadPoolExecutor(8), [Methods()], options=LIMITS)
    assert server.add_insecure_port("unix:" + socket)
    server.start()
    say("ready")
    sys.stdin.readline()
    server.stop(0).wait()


(run_client if sys.argv[1] == "client" else run_server)(sys.argv[2])
