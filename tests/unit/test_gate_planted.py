#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bugs that are planted in core/gate.c, one at a time: the tests of its laws must find each.

Arguments: ROOT CC
A row: the file, what stands there once, what is put in its place, and what breaks by that.
"""
import planted

PLANTED = [
    (None, "\tif (facts->member && facts->member->out_bytes)\n\t\treasons |= bit(GATE_OUT);\n", "", "a gate opens while memory is out"),
    (None, "\tif (facts->shut)\n\t\treasons |= bit(GATE_SHUT);\n", "", "the test verb closes nothing"),
    (None, "\tif (facts->unheard)\n\t\treasons |= bit(GATE_UNHEARD);\n", "", "a gate opens before it is known what is out"),
    (None, "\tif (facts->seat && !facts->seat->told_open)", "\tif (facts->seat && facts->seat->tenant->state == TURNS_LINED)", "a gate opens beside another one"),
    (None, "\tif (m && m->suspended)\n\t\treturn GATE_SUSPENDED;\n", "", "a suspended tenant is shown as waiting for its memory"),
    (None, "\treturn owes ? GATE_CLOSING : GATE_SHUT_OFF;", "\treturn GATE_SHUT_OFF;", "a gate counts as closed before its processes have drained"),
]

planted.check("gate", PLANTED, tests=("test_gate_always",), seeds=("1", "2"),
              world=planted.parts_of("residency") + planted.parts_of("turns"))
