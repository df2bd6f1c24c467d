# SPDX-License-Identifier: Apache-2.0
"""Descriptors that take long to close, for whoever closes them last."""
import os
import socket
import struct

LINGER_S = 3600


def connection():
    """A TCP connection with bytes that nobody reads: (its end, what must stay open). Closing its end takes LINGER_S."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        end = socket.create_connection(listener.getsockname())
        other = listener.accept()[0]
    end.setblocking(False)
    try:
        while True:
            end.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
    return end, other


def memory(bytes):
    """A file of memory whose pages all have to be freed."""
    file = os.memfd_create("large")
    os.posix_fallocate(file, 0, bytes)
    return file


def post(peer, bytes):
    """Sends such a connection with the message, and has nothing of it afterwards. Returns what must stay open.

    Whoever closes it last waits. A process that ends does not, so one of its own sends it."""
    end, other = connection()
    closed, close = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(close)
            os.read(closed, 1)
            socket.send_fds(peer, [bytes], [end.fileno()], socket.MSG_DONTWAIT)
        finally:
            os._exit(0)
    end.close()
    os.close(closed)
    os.close(close)
    os.waitpid(child, 0)
    return other
