#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bugs that are planted in core/residency/residency*.c, one at a time: the tests of its laws must find each.

Arguments: ROOT CC
A row: the file, what stands there once, what is put in its place, and what breaks by that.
"""
import planted

PLANTED = [
    ("move", "m->place != RESIDENCY_STOPPING || m->seat->gate != TURNS_CLOSED",
     "m->place != RESIDENCY_STOPPING", "blocks leave while kernels run"),
    ("move", "r->missing_bytes + r->resident_bytes + r->credit_bytes",
     "r->missing_bytes + r->resident_bytes", "room is promised twice"),
    ("move", "if (!m->out_bytes && !asks_for(m))", "if (!asks_for(m))", "a member that is not whole runs"),
    ("move", "\tr->used_bytes += needs;\n", "", "the store is exceeded"),
    ("move", "if (needs > may) {", "if (false) {", "quotas mean nothing"),
    ("patience", "if (patience_of(m) > now_ns)", "if (true)", "a frozen guest is waited for for ever"),
    ("next", "\tresidency_see_drained(r, now_ns);\n", "", "who drained while nobody looked is stuck"),
    ("move", "\t\tlack = beyond(lack, m->resident_bytes);\n\t\tbar(m, now_ns);\n",
     "\t\tbar(m, now_ns);\n", "all leave where one would do"),
    (None, "m->place == RESIDENCY_IN && residency_room(r) >= bytes", "m->place == RESIDENCY_IN",
     "the device is too full"),
    (None, "\tm->credit_bytes = m->ordered_bytes = m->order_todo = m->credit_todo = 0;\n",
     "\tm->credit_bytes = m->credit_todo = 0;\n", "a member that was stopped is waited for"),
    (None, "if (bytes > beyond(capacity_bytes + (is_batch(m) ? above : 0), member_need(m)))", "if (false)",
     "a tenant is larger than the device"),
    ("choose", "stay = r->cost_ns / t->cost_milli * MILLI", "stay = r->cost_ns",
     "moving costs half of the time"),
    ("choose", "\tif (need > *room)\n\t\treturn false;\n", "", "a set does not fit"),
    ("yield", "return is_batch(m) && !is_to_be_out(m)", "return !is_to_be_out(m)", "everybody yields"),
    ("yield", "set(m, need_of(m) > room);", "set(m, false);", "a member that is parked comes back and is parked again, for ever"),
    ("yield", "if (!m->yields && now_ns < at) {", "if (false) {", "a member that has just come leaves at once"),
    ("yield", "\t\t\tset(m, false);\n\t\telse if", "\t\t\t;\n\t\telse if", "a member that yielded is forgotten"),
    ("choose", "m->virtual_ns <= m->residency->clock ?", "m->virtual_ns < m->residency->clock ?", "no class comes first"),
    ("choose", "return a->wanted_ns < b->wanted_ns;", "return a->wanted_ns > b->wanted_ns;", "who has waited for too long waits for longer"),
    ("choose", "rank_class(leader) >= m->seat", "rank_class(leader) > m->seat", "a member comes in vain"),
    ("move", "\t\tm->came_turns = m->seat->turns;\n", "", "a member that has come again comes in vain"),
    ("move", "\t\tm->in_ns = now_ns;\n", "", "batch that has come back leaves at once"),
    ("move", "return a->virtual_ns > b->virtual_ns;", "return a->virtual_ns < b->virtual_ns;", "the one that had least leaves first"),
    ("next", "r->used_bytes + promised(r)", "r->used_bytes", "idle members are parked where there is no room"),
]

planted.check("residency", PLANTED, tests=("test_residency", "test_residency_patience", "test_residency_store", "test_residency_pause",
                                           "test_residency_yield", "test_residency_always"), seeds=("1",),
              world=[*planted.parts_of("turns"), "node/process.c", "base/process_look.c", "base/process_child.c", "base/file.c", "base/log.c", "base/loop.c", "base/loop_watch.c"])  # a test parses schedstat
