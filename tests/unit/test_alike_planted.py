#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bugs that are planted in core/turns/alike.c, one at a time: the tests of its laws must find each.

Arguments: ROOT CC
A row: the file, what stands there once, what is put in its place, and what breaks by that.
"""
import planted

PLANTED = [
    (None, "\treturn least(beyond(b.worst, idle), b.beyond);", "\treturn b.worst;", "a tenant that is slow by itself makes others take turns"),
    (None, "\ts->counted = wants;\n\ts->alike->wanting += wants ? 1u : -1u;\n", "", "a tenant that rests is due its part"),
    (None, "\twhile (a->event_count && a->events[a->event].at_ns <= to_ns)\n\t\treplay_one(a);\n",
     "\twhile (a->event_count)\n\t\treplay_one(a);\n", "tenants' wishes are compared with samples of another time"),
    (None, "a->samples >= SAMPLES_LEAST && ", "", "a single sample decides"),
    (None, "unfair > tolerated + noise_ns", "false", "a tenant that is far too short waits for three seconds"),
    (None, "least(b.lacks, b.beyond) > moment_most_ns", "false", "an unfair device is opened for longer than a moment"),
    (None, "soon ? least(2 * a->span_ns, ALIKE_SPAN_MOST_NS) : ALIKE_SPAN_FIRST_NS", "ALIKE_SPAN_FIRST_NS", "spans do not grow"),
    (None, "soon ? least(2 * a->span_ns, ALIKE_SPAN_MOST_NS)", "soon ? 2 * a->span_ns", "spans grow without an end"),
    (None, "active <= a->active && ", "", "a tenant that wakes up is found too late"),
    (None, " && uneven <= a->fair_milli + SUSPECTED_MILLI", "", "kernels that become long beside an idle tenant wait for a patient machine"),
    (None, "\ta->fair_milli = a->watched_milli;\n", "", "a device that was found fair is suspect again each second"),
    (None, "now_ns < a->quiet_ns && familiar", "false", "idle tenants make it look all the time"),
    (None, "a->unused_ns = least(2 * a->unused_ns, unused_most_ns);", "", "an unused device is looked at each second"),
    (None, "\tif (!anybody_wants(a))\n\t\treturn;\n", "\treturn;\n", "a tenant that computes and does not report it is sampled no more"),
    (None, "\tif (wants && alike_sleeps(a))\n\t\tleave_open(a, now_ns);\n", "", "a tenant that wants an unused device is not sampled"),
    (None, "\ta->unheard_ns = now_ns + blind_ns;\n", "", "a tenant that never reports that it is idle is asked again and again"),
    (None, "a->state != ALIKE_UNUSED && alike_listens(a)", "alike_listens(a)", "a tenant that comes to an unused device, or leaves it, makes it governed"),
    (None, "\tif (a->unused_ns >= unused_most_ns && now_ns >= a->unheard_ns) {", "\tif (false) {", "an unused device is looked at for ever"),
    (None, "\tenter(a, ALIKE_OPEN, now_ns + blind_ns, now_ns);\n", "\ta->asks = false;\n\ta->due_ns = now_ns + blind_ns;\n",
     "a device stays governed without samples"),
    (None, "\tcount(s, false);\n\tlist_remove", "\tlist_remove", "a tenant that has left is counted"),
    (None, "\tenter(a, ALIKE_GOVERNED, now_ns + a->span_ns, now_ns);", "\tenter(a, ALIKE_GOVERNED, now_ns + ALIKE_GLANCE_NS, now_ns);", "it changes its mind each second"),
]

planted.check("alike", PLANTED, tests=("test_alike_always",), seeds=("1", "2"), world=[])
