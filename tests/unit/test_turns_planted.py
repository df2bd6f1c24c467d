#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bugs that are planted in core/turns/turns*.c, one at a time: the tests of its laws must find each.

Arguments: ROOT CC
A row: the file, what stands there once, what is put in its place, and what breaks by that.
"""
import planted

PLANTED = [
    ("tenant", "while (d->governed && !d->holder && !d->strays)", "while (d->governed && !d->holder)",
     "a turn begins before what ran on the open device has drained"),
    ("account", "return s->gate != TURNS_OPENED || !s->tenant->paused;",
     "return s->gate == TURNS_OPENED && !s->tenant->paused;", "a drain is not charged"),
    ("account", "s->allowance > saved", "s->allowance > 40 * saved", "a cap saves up too much"),
    ("judge", "over = at <= now_ns;", "over = false;", "a cap that is used up ends no turn"),
    ("line", "least(s->wanted_ns + d->turns->tuning.starve_ns, turns_seat_due(s, now_ns))",
     "turns_seat_due(s, now_ns)", "who waits for long is never next"),
    ("drain", "\t\tcouple(s, TURNS_STEPPED);\n\t\treopen(t, now_ns);", "\t\thang(s, now_ns);",
     "who is coupled is reported as hung"),
    ("drain", "\tt->escalated = true;\n", "", "who hangs is killed twice"),
    ("drain", "else if (now_ns >= until)", "else if (now_ns + t->turns->tuning.drain_ns >= until)",
     "who takes long to drain is reported too soon"),
    ("drain", "now_ns - t->ending_ns >= t->turns->tuning.beside_ns", "false", "who never drains is let in for ever"),
    ("tenant", "!t->wants || t->barred || t->suspended ||", "!t->wants || t->barred ||",
     "who is suspended is given turns"),
    ("drain", "\tif (!stands) {\n\t\tescalate(s, now_ns);", "\tif (true) {\n\t\tescalate(s, now_ns);",
     "who waits for us is suspended or killed"),
    (None, "SEAT_OF_TENANT(link)->device->order > s->device->order",
     "SEAT_OF_TENANT(link)->device->order == s->device->order",
     "claims are made in the order of joining"),
    ("tenant", "\tturns_tenant_enter(t, now_ns);\n\tlist_for_each(link, &t->seats) turns_device_serve",
     "\tturns_tenant_enter(t, now_ns);\n\tif (false)\n\tlist_for_each(link, &t->seats) turns_device_serve",
     "a device stands still after a turn"),
    ("tenant", "\tt->wants |= s->asks;\n", "", "who stood at a gate is forgotten"),
    ("judge", "} else if (t->idle || now_ns >= t->end_ns) {", "} else if (true) {",
     "who is let in to be able to drain has no time for it"),
    ("judge", "\tt->idle = true;\n\tt->idle_ns = now_ns;\n", "\tt->idle_ns = now_ns;\n",
     "who is idle keeps its turn"),
    ("account", "return ns * WEIGHT_UNIT / s->tenant->share.weight;", "return ns * WEIGHT_UNIT / 100;",
     "weights mean nothing"),
    ("account", "if (!rate)\n\t\treturn UINT64_MAX;", "if (rate < 2000)\n\t\treturn UINT64_MAX;",
     "guarantees mean nothing"),
    ("account", "\tclock_move(s->device, -beyond * s->tenant->share.weight);\n", "",
     "the clock is no mean any more"),
    ("judge", "if (best == s && s->tenant->share.class < t->share.class)", "if (false)",
     "interactive tenants wait for the shortest turn"),
    ("device", "!d->uneven && ", "", "several processes have several slices"),
    ("device", "d->weights_squared * d->tenants == d->weights * d->weights", "d->weights > 0",
     "different weights make no difference"),
    ("tenant", "\t\tt->wants = t->idle = t->paused = t->forced = t->stepping = false;\n"
     "\t\tturns_tenant_unhang(t);\n\t\tturns_timer_set(&t->turns->timers, &t->timer, UINT64_MAX);\n", "",
     "an open device waits for a time"),
    ("heap", "\tset_first(heap, meld(heap->first, children));\n", "\t(void)children;\n",
     "the heap loses nodes"),
]

planted.check("turns", PLANTED, tests=("test_turns_always", "test_turns", "test_turns_await"), seeds=("1", "2"),
              world=["replay/load_words.c"] + ["replay/time_%s.c" % name for name in ("engine", "guest", "load", "measure", "outcome", "world")])
