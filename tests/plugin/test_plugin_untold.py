#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted is killed when it has made a tenant and has not written down whose it is. The kubelet was told nothing, no container was started: the next
meted gives the room to others at once. It waits for an hour for guests that may come back, which nothing here is to need. tests/plugin/node.py
describes the parties."""
import re

from counted import *
from meted import run
from test_plugin_claims import claims, uid

HOUR = ("--grace", "1h")


def newest(node):
    """The tenant that meted's journal has named last; 0: none yet."""
    with open(node.place + "/journal") as file:
        return max(map(int, re.findall(r"\btenant id=(\d+)", file.read())), default=0)


def die_before(node, record, begin):
    """Kills meted between the journal's record of a new tenant and that other one, whose writer waits for a reader."""
    before = newest(node)
    os.mkfifo(f"{node.place}/{record}.new")
    begin()
    try:
        until(lambda: newest(node) > before, lambda: open(node.place + "/journal").read())
    finally:
        node.meted.kill()


def key_of(node, *ids):
    """How meted names the record of these ids."""
    pod = node.run("before", *ids, spec={"containers": [container(memory="1Gi")]})
    key = node.record(pod.title())[0]
    pod.delete()
    node.await_empty()
    return "bindings/" + key


def limits(node):
    return {row.name: row.limit for row in node.tenants()}


def test_a_slot_whose_container_was_not_told_is_free():
    with Node(devices="1xSIM", slots=2, options=HOUR) as node:
        key = key_of(node, node.id(0))
        pod = node.pod("pod", annotations={"memory": "2GiB"}).admit(node.id(0))
        die_before(node, key, pod.begin)
        node.restart()
        assert not node.tenants() and not os.listdir(node.place + "/tenants")
        pod.start()
        node.folder_of(pod.title())
        assert limits(node) == {pod.title(): 2 * GIB}
        pod.delete()
        node.await_empty()


def test_a_container_that_starts_again_has_its_room_once():
    with Node(devices="1xSIM", slots=2, options=HOUR) as node:
        pod = node.run("pod", node.id(0))
        key, was = node.record(pod.title())
        die_before(node, "bindings/" + key, pod.begin)
        node.restart()
        assert [row.tenant for row in node.tenants()] == [was["tenant"]]
        node.folder_of(pod.title())
        pod.start()
        until(lambda: [row.tenant for row in node.tenants()] == [node.record(pod.title())[1]["tenant"]] != [was["tenant"]])


def test_room_that_nobody_was_told_of_is_anothers():
    with amounts(devices="1xSIM", options=HOUR) as node:
        key = key_of(node, "slot-900")
        pod = node.pod("pod", spec={"containers": [container(memory="3Gi")]}).admit("slot-900")
        die_before(node, key, pod.begin)
        node.restart()
        other = asks(node, "other", container(memory="3Gi")).start()
        assert limits(node) == {other.title(): 3 * GIB}
        assert "1GiB of 4GiB are left" in pod.refusal()
        other.delete()
        pod.start()
        assert limits(node) == {pod.title(): 3 * GIB}


def test_a_claim_that_was_not_prepared_has_no_room():
    with claims(devices="1xSIM", options=HOUR) as (node, requests, caller):
        requests.answer_all()
        die_before(node, f"claims/{uid('c0')}", lambda: caller.tell(f"c0 prepare ns c0 {uid('c0')}"))
        node.start()
        assert not node.tenants() and not os.listdir(node.place + "/tenants")
        node.await_empty()  # its CDI file, too, if there was one by then


def test_a_container_that_runs_without_a_record_keeps_its_slot_until_it_ends():
    """The former container of the same ids: meted was killed when it was about to end the tenant."""
    with Node(devices="1xSIM", slots=2, options=HOUR) as node:
        pod = node.run("pod", node.id(0))
        key = node.record(pod.title())[0]
        guest = Guest(node.folder_of(pod.title()) + "/guest.sock")
        node.meted.kill()
        guest.hang_up()
        os.unlink(f"{node.place}/bindings/{key}")
        node.restart()
        assert list(limits(node)) == [pod.title()]
        guest.seat.end()
        until(lambda: not node.tenants(), lambda: node.log()[-2000:])


if __name__ == "__main__":
    run(globals(), at_once=2)
