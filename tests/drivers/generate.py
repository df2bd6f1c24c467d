#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the drivers that the guest is tested on, from cuda/api.def.

    generate.py SOURCE_ROOT null OUT     every export answers CUDA_SUCCESS at once
    generate.py SOURCE_ROOT record OUT   every export notes its index and all its arguments
    generate.py SOURCE_ROOT rows OUT     C: a table of the functions, for tests that call them all
    generate.py SOURCE_ROOT map OUT      linker version script

A function special_SYMBOL, where one is linked in, does the work instead (after the note is taken).
"""

import os
import sys

NULL = """\
	.macro EXPORT symbol index
	.weak special_\\symbol
	.hidden special_\\symbol
	.globl \\symbol
	.type \\symbol, @function
	.p2align 4
\\symbol:
	mov .Lspecial_\\symbol(%rip), %r11
	test %r11, %r11
	jnz 1f
	xor %eax, %eax
	ret
1:	jmp *%r11
	.size \\symbol, . - \\symbol
	.pushsection .data.rel.ro, "aw", @progbits
.Lspecial_\\symbol:
	.quad special_\\symbol
	.popsection
	.endm
"""

# struct record of tests/drivers/rows.h; RECORDS of them, in a ring.
RECORD = """\
	.macro EXPORT symbol index
	.weak special_\\symbol
	.hidden special_\\symbol
	.globl \\symbol
	.type \\symbol, @function
	.p2align 4
\\symbol:
	mov $\\index, %eax
	mov .Lspecial_\\symbol(%rip), %r10
	jmp record
	.size \\symbol, . - \\symbol
	.pushsection .data.rel.ro, "aw", @progbits
.Lspecial_\\symbol:
	.quad special_\\symbol
	.popsection
	.endm

record:
	push %rbx
	.set OFFSET, 8
	mov $1, %ebx
	lock xadd %ebx, record_count(%rip)
	and $63, %ebx
	shl $8, %ebx
	lea record_ring(%rip), %r11
	add %r11, %rbx
	mov %rax, 0(%rbx)
	mov 8(%rsp), %r11
	mov %r11, 8(%rbx)
	mov %rdi, 16(%rbx)
	mov %rsi, 24(%rbx)
	mov %rdx, 32(%rbx)
	mov %rcx, 40(%rbx)
	mov %r8, 48(%rbx)
	mov %r9, 56(%rbx)
	.set WORD, 0
	.rept 16
	mov 16 + 8 * WORD(%rsp), %r11
	mov %r11, 64 + 8 * WORD(%rbx)
	.set WORD, WORD + 1
	.endr
	movsd %xmm0, 192(%rbx)
	movsd %xmm1, 200(%rbx)
	pop %rbx
	test %r10, %r10
	jnz 1f
	mov record_result(%rip), %eax
	ret
1:	jmp *%r10

	.globl record_ring, record_count, record_result
	.bss
	.p2align 8
record_ring:
	.zero 64 * 256
record_count:
	.zero 4
record_result:
	.zero 4
	.text
"""


def load(root):
    sys.path.insert(0, os.path.join(root, "cuda"))
    import api
    return api


def assembly(api, head):
    lines = [head, "\t.text"]
    lines += [f"\tEXPORT {row.symbol} {row.index}" for row in api.load()]
    lines.append('\t.section .note.GNU-stack, "", @progbits')
    return "\n".join(lines) + "\n"


def shape(row):
    """A letter per argument: i nteger, p lace (memory), h andle, r eal, s truct of 8 bytes, S larger."""
    letters = ""
    for param in row.params:
        letter = {"integer": "i", "handle": "h", "pointer": "p", "string": "p", "callback": "c",
                  "real": "r", "struct": "S"}[param.kind]
        if param.type == "CUmemLocation":
            letter = "s"
        letters += letter
    return letters


def widths(row):
    """A digit per argument: how many bytes of it count (4, or 8)."""
    narrow = ("int", "unsigned int", "cuuint32_t", "CUdevice", "CUdevice_v1", "float", "CUdeviceptr_v1",
              "unsigned char", "unsigned short")
    digits = ""
    for param in row.params:
        type_ = param.type.replace("const ", "")
        small = {"unsigned char": "1", "unsigned short": "2"}.get(type_)
        wide = type_.endswith("*") or param.kind in ("handle", "callback", "struct") or type_ in (
            "size_t", "cuuint64_t", "CUdeviceptr_v2", "CUdeviceptr", "unsigned long long",
            "CUtexObject", "CUsurfObject", "CUgraphConditionalHandle", "CUmemGenericAllocationHandle",
            "CUmemGenericAllocationHandle_v1", "CUtexObject_v1", "CUsurfObject_v1", "VdpGetProcAddress")
        digits += small or ("8" if wide else "4")
    return digits


def rows(api, root):
    with open(os.path.join(root, "guest", "hooks.txt")) as file:
        hooked = {line.strip() for line in file if not line.startswith("#")}
    lines = ["/* Made by tests/drivers/generate.py. */", '#include "tests/drivers/rows.h"', ""]
    table = api.load()
    lines += [f"extern void {row.symbol}(void) __attribute__((weak));" for row in table]
    lines += ["", "const struct driver_row driver_rows[] = {"]
    lines += [f'\t{{"{row.base}", "{row.symbol}", {row.symbol}, {row.version}, DRIVER_{row.stream}, '
              f'DRIVER_{row.klass}, "{shape(row)}", "{widths(row)}", {int(row.symbol in hooked)}}},'
              for row in table]
    lines += ["};", "const unsigned driver_row_count = sizeof(driver_rows) / sizeof(driver_rows[0]);"]
    return "\n".join(lines) + "\n"


def map_(api):
    names = [row.symbol for row in api.load()] + ["record_ring", "record_count", "record_result", "law_state"]
    return "{\nglobal:\n" + "".join(f"\t{name};\n" for name in names) + "local:\n\t*;\n};\n"


def main(arguments):
    api = load(arguments[0])
    text = {"null": lambda: assembly(api, NULL), "record": lambda: assembly(api, RECORD),
            "rows": lambda: rows(api, arguments[0]), "map": lambda: map_(api)}[arguments[1]]()
    with open(arguments[2], "w") as out:
        out.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
