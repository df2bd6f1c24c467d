#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attackers at the page's and the metrics' doors, where these speak TLS: `doors.py NAME` under `mete run`; `--list`.

They come from many addresses of the loopback network, and world.py's reader from another one, with a token that they do not have. Each does its
worst for a second or so, prints "holds", and stays until its standard input ends.
"""
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
import time

PAGE, METRICS = (int(port) for port in os.environ.get("HOSTILE_DOORS", "0 0").split())
SECONDS = float(os.environ.get("HOSTILE_SECONDS", "4"))
HOSTS = [f"127.0.{net}.{host}" for net in (1, 2) for host in range(1, 101)]
END = time.monotonic() + SECONDS


def connect(port, host):
    """From that address."""
    return socket.create_connection(("127.0.0.1", port), 2, (host, 0))


def hello():
    """The first message of a handshake."""
    outgoing = ssl.MemoryBIO()
    client = anybody().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def anybody():
    """A client that believes every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def secure(port, host, context=None):
    return (context or anybody()).wrap_socket(connect(port, host), server_hostname="localhost")


def without_end(once, threads=8):
    """once(port, host) in turn for both doors and all addresses, in so many threads; whatever comes of it."""
    def work(first):
        turn = first
        while time.monotonic() < END:
            try:
                once((PAGE, METRICS)[turn % 2], HOSTS[turn % len(HOSTS)])
            except (OSError, ValueError):
                time.sleep(0.002)
            turn += threads

    all_of_them = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for one in all_of_them:
        one.start()
    for one in all_of_them:
        one.join()


def doors_half_open():
    """handshakes that are begun from 200 addresses and never go on"""
    first, held = hello(), []

    def once(port, host):
        made = connect(port, host)
        held.append(made)
        made.sendall(first[:random.choice((1, 5, len(first) - 1, len(first)))])
        if len(held) > 300:
            held.pop(0).close()

    without_end(once)


def doors_cut_off():
    """handshakes that are whole, and cut off before a request, from 200 addresses"""
    without_end(lambda port, host: secure(port, host).close())


def doors_bad_certificates():
    """certificates of its own, none, and alerts about the server's, in the middle of the handshake"""
    def once(port, host):
        made = connect(port, host)
        made.sendall(hello())
        made.recv(1 << 14)
        made.sendall(random.choice((b"\x15\x03\x03\x00\x02\x02\x30", b"\x15\x03\x03\x00\x02\x01\x00",  # unknown CA; close
                                    b"\x16\x03\x03\x00\x08\x0b\x00\x00\x04\x00\x00\x00\x00",  # an empty certificate that nobody asked for
                                    b"\x14\x03\x03\x00\x01\x01" + b"\x17\x03\x03\x40\x00" + os.urandom(1 << 14))))
        made.close()

    without_end(once)


def in_openssl(letter, version):
    """openssl's client, which does so at each such line of its input."""
    def once(port, host):
        with subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-bind", f"{host}:0", version], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
            while time.monotonic() < END and client.poll() is None:
                client.stdin.write(letter + b"\n")
                client.stdin.flush()
                time.sleep(0.001)
            client.kill()

    without_end(once, threads=4)


def doors_renegotiated():
    """TLS 1.2 that is negotiated again and again on a connection"""
    in_openssl(b"R", "-tls1_2")


def doors_keys_updated():
    """TLS 1.3 whose keys are changed again and again, the server's as well"""
    in_openssl(b"K", "-tls1_3")


def doors_dripped():
    """whole handshakes, and then a request that drips a byte at a time, from 200 addresses"""
    held = []

    def once(port, host):
        made = secure(port, host)
        held.append(made)
        made.sendall(b"GET /v1/node HTTP/1.1\r\nHost: localhost\r\nX: ")
        for old in held[-40:]:
            try:
                old.sendall(b"a")
            except OSError:
                pass

    without_end(once)


def doors_verbs():
    """every verb of HTTP on every path by a client with no token, a wrong one, or one of 64 KiB"""
    def once(port, host):
        with secure(port, host) as made:
            verb = random.choice(("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "GET"))
            path = random.choice(("/v1/node", "/v1/tenants/neighbour", "/v1/tenants/neighbour/suspend", "/v1/devices/0", "/v1/events", "/metrics", "/"))
            token = random.choice(("", "Authorization: Bearer \r\n", "Authorization: Bearer root\r\n", f"Authorization: Bearer {'a' * 9000}\r\n",
                                   "Authorization: Basic cm9vdDpyb290\r\n"))
            made.sendall(f"{verb} {path}?memory=1MiB&suspends=1 HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 12\r\nConnection: close\r\n\r\nmemory=1MiB\n".encode())
            said = made.recv(1 << 16)
            # Aloud, where world.py hears it: nobody may be answered who has no token.
            if said.startswith(b"HTTP/1.1 200") and path.startswith("/v1/"):
                print(f"was shown {verb} {path}", flush=True)

    without_end(once)


def main():
    attacks = {name: function for name, function in globals().items() if name.startswith("doors_")}
    if sys.argv[1:] == ["--list"]:
        for name, function in attacks.items():
            print(f"{name}\t{function.__doc__}")
        return
    attacks[sys.argv[1]]()
    print("holds", flush=True)
    sys.stdin.read()
    os._exit(0)


main()
