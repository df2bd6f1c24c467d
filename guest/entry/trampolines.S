/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One entry per exported function; guest/generate.py sets its kind and index. The index is that of
 * guest_real[] and guest_export[].
 *
 * LAUNCH is the fast path (docs/decisions/0001-one-gate-word.md): sixteen instructions around the
 * driver's, no stack argument copied, so that any prototype is served. The return address waits in
 * the thread's slot instead of on the stack; %rbx, which the driver preserves, holds the slot, and
 * its old value waits there too. The CFI says so in terms of %rbx, so that backtrace() finds its
 * way from inside the driver.
 *
 * A signal handler may launch anywhere in between: until the slot is taken it finds it empty, then
 * taken, and after it was cleared nothing here reads it any more (%rbx is restored before).
 */
#define SLOT_RETURN 0
#define SLOT_RBX 8
#define SLOT_COUNTDOWN 16
#define CUDA_NOT_SUPPORTED 801
#define NVML_FUNCTION_NOT_FOUND 13

/* DWARF: register REG is saved at (BASE) + OFFSET. rax 0, rbx 3, return address 16. */
#define SAVED_AT(reg, base, offset) .cfi_escape 0x10, reg, 2, 0x70 + base, offset
#define DWARF_RAX 0
#define DWARF_RBX 3
#define DWARF_RETURN 16

	.macro ENTRY symbol index
	.text
	.p2align 4
	.globl \symbol
	.type \symbol, @function
\symbol:
	.pushsection .rodata.guest_export, "a", @progbits
	.long .Lentry_\symbol - guest_entries
	.popsection
.Lentry_\symbol:
	.cfi_startproc
	.endm

	.macro DONE symbol
	.cfi_endproc
	.size \symbol, . - \symbol
	.endm

	.macro PASS symbol index
	ENTRY \symbol \index
	jmp *(guest_real + 8 * \index)(%rip)
	DONE \symbol
	.endm

	.macro HOOK symbol index
	ENTRY \symbol \index
	jmp hook_\symbol
	DONE \symbol
	.endm

	/* A hook that may be missing (guest/unwritten.txt). */
	.macro WEAK symbol index
	.weak hook_\symbol
	.hidden hook_\symbol
	ENTRY \symbol \index
	.pushsection .data.rel.ro.guest_weak, "aw", @progbits
.Lweak_\symbol:
	.quad hook_\symbol
	.popsection
	mov .Lweak_\symbol(%rip), %rax
	test %rax, %rax
	jz 1f
	jmp *%rax
1:	jmp *(guest_real + 8 * \index)(%rip)
	DONE \symbol
	.endm

	.macro REFUSE symbol index
	ENTRY \symbol \index
	mov $\index, %edi
	jmp pass_refuse
	DONE \symbol
	.endm

	/* `test` sets the carry flag, or jumps by itself; see LAUNCH and TOUCH. */
	.macro GUARDED symbol index launch
	ENTRY \symbol \index
	.cfi_remember_state
1:	mov guest_slot@gottpoff(%rip), %rax
	mov %fs:(%rax), %rax
	cmpq $0, SLOT_RETURN(%rax)
	jne 5f
	popq SLOT_RETURN(%rax)
	.cfi_def_cfa %rsp, 0
	SAVED_AT(DWARF_RETURN, DWARF_RAX, SLOT_RETURN)
	mov %rbx, SLOT_RBX(%rax)
	mov %rax, %rbx
	SAVED_AT(DWARF_RETURN, DWARF_RBX, SLOT_RETURN)
	SAVED_AT(DWARF_RBX, DWARF_RBX, SLOT_RBX)
	.if \launch
	/* %bl is zero, as slots are aligned: carry if any gate is not open. decl keeps the carry. */
	cmp guest_tenant_page(%rip), %bl
	decl SLOT_COUNTDOWN(%rbx)
	jbe 4f
	.else
	cmpl $0, guest_not_resident(%rip)
	jne 4f
	.endif
2:	call *(guest_real + 8 * \index)(%rip)
3:	push SLOT_RETURN(%rbx)
	.cfi_def_cfa %rsp, 8
	.cfi_offset DWARF_RETURN, -8
	mov %rbx, %rcx
	mov SLOT_RBX(%rcx), %rbx
	.cfi_restore DWARF_RBX
	movq $0, SLOT_RETURN(%rcx)
	ret

	.cfi_def_cfa %rsp, 0
	SAVED_AT(DWARF_RETURN, DWARF_RBX, SLOT_RETURN)
	SAVED_AT(DWARF_RBX, DWARF_RBX, SLOT_RBX)
4:	mov $\index, %eax
	call guest_slow
	test %eax, %eax
	jz 2b
	jmp 3b

	.cfi_restore_state
5:	lea guest_unregistered(%rip), %r11
	cmp %r11, %rax
	jne 6f
	mov $\index, %eax
	call guest_register
	test %eax, %eax
	jz 1b
	ret
	/* The driver called itself, inside a call that is already counted. Or a handler interrupted
	 * a launch, or a launch was left by a jump: then this is a call like any other, with
	 * another slot. */
6:	call guest_again
	test %eax, %eax
	jz 1b
	js 7f
	ret
7:	jmp *(guest_real + 8 * \index)(%rip)
	DONE \symbol
	.endm

	.macro LAUNCH symbol index
	GUARDED \symbol \index 1
	.endm

	.macro TOUCH symbol index
	GUARDED \symbol \index 0
	.endm

	/* Saves every register that holds an argument, in an aligned frame; %rsp points to them. */
	.macro SAVE_ARGUMENTS
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	sub $192, %rsp
	and $-16, %rsp
	mov %rdi, 0(%rsp)
	mov %rsi, 8(%rsp)
	mov %rdx, 16(%rsp)
	mov %rcx, 24(%rsp)
	mov %r8, 32(%rsp)
	mov %r9, 40(%rsp)
	movaps %xmm0, 48(%rsp)
	movaps %xmm1, 64(%rsp)
	movaps %xmm2, 80(%rsp)
	movaps %xmm3, 96(%rsp)
	movaps %xmm4, 112(%rsp)
	movaps %xmm5, 128(%rsp)
	movaps %xmm6, 144(%rsp)
	movaps %xmm7, 160(%rsp)
	.endm

	.macro RESTORE_ARGUMENTS
	mov 0(%rsp), %rdi
	mov 8(%rsp), %rsi
	mov 16(%rsp), %rdx
	mov 24(%rsp), %rcx
	mov 32(%rsp), %r8
	mov 40(%rsp), %r9
	movaps 48(%rsp), %xmm0
	movaps 64(%rsp), %xmm1
	movaps 80(%rsp), %xmm2
	movaps 96(%rsp), %xmm3
	movaps 112(%rsp), %xmm4
	movaps 128(%rsp), %xmm5
	movaps 144(%rsp), %xmm6
	movaps 160(%rsp), %xmm7
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	.endm

	.section .rodata.guest_export, "a", @progbits
	.globl guest_export_at
	.hidden guest_export_at
	.type guest_export_at, @object
	.p2align 2
guest_export_at:
	.text
	.globl guest_entries
	.hidden guest_entries
guest_entries:

#include "guest/rows.h"

	.text
	.globl guest_entries_end
	.hidden guest_entries_end
guest_entries_end:

	/* The targets of each function's first call: one for each row, 16 bytes each. They are one
	 * procedure for unwinders, which may ask at any instruction. */
	.section .text.lazy, "ax", @progbits
	.p2align 4
	.globl guest_stubs
	.hidden guest_stubs
guest_stubs:
	.cfi_startproc
	.set index, 0
	.rept ROWS
	.p2align 4
	mov $index, %eax
	jmp guest_lazy
	.set index, index + 1
	.endr
	.cfi_endproc

	.section .rodata.guest_export, "a", @progbits
	.size guest_export_at, . - guest_export_at

	/* The slots begin as the stubs of .text.lazy, 16 bytes each. To say so by 1,100 relocations
	 * costs every process that the guest is loaded into ten times what this loop does, which
	 * the loader calls for one of them: before any constructor runs, and so before any call. */
	.section .data.guest_real, "aw", @progbits
	.globl guest_real
	.hidden guest_real
	.type guest_real, @object
	.p2align 4
guest_real:
	.skip 8 * (ROWS + 1)
	.size guest_real, . - guest_real
	.p2align 3
	.quad guest_fill

	.text
	.type guest_fill, @gnu_indirect_function
guest_fill:
	lea guest_real(%rip), %rax
	lea 8 * ROWS(%rax), %rcx
	lea guest_stubs(%rip), %rdx
1:	mov %rdx, (%rax)
	lea 16(%rdx), %rsi
	mov %rsi, 8(%rax)
	add $32, %rdx
	add $16, %rax
	cmp %rcx, %rax
	jb 1b
	ret
	.size guest_fill, . - guest_fill

	.text
	/* The first call of a function: %eax is its index; the caller's frame is untouched. */
	.type guest_lazy, @function
guest_lazy:
	.cfi_startproc
	SAVE_ARGUMENTS
	mov %eax, %edi
	call real_resolve
	mov %rax, %r11
	RESTORE_ARGUMENTS
	jmp *%r11
	.cfi_endproc
	.size guest_lazy, . - guest_lazy

	/* A gate is not open, or a sample is due: pass_slow(slot, index, registers, stack). */
	.type guest_slow, @function
guest_slow:
	.cfi_startproc
	SAVE_ARGUMENTS
	mov %rbx, %rdi
	mov %eax, %esi
	mov %rsp, %rdx
	lea 16(%rbp), %rcx
	call pass_slow
	RESTORE_ARGUMENTS
	ret
	.cfi_endproc
	.size guest_slow, . - guest_slow

	/* The thread's first guarded call: presence_register(index). */
	.type guest_register, @function
guest_register:
	.cfi_startproc
	SAVE_ARGUMENTS
	mov %eax, %edi
	call presence_register
	RESTORE_ARGUMENTS
	ret
	.cfi_endproc
	.size guest_register, . - guest_register

	/* The thread's slot is taken: presence_again(caller, stack). */
	.type guest_again, @function
guest_again:
	.cfi_startproc
	SAVE_ARGUMENTS
	mov 16(%rbp), %rdi
	lea 16(%rbp), %rsi
	call presence_again
	RESTORE_ARGUMENTS
	ret
	.cfi_endproc
	.size guest_again, . - guest_again

	/* The answer for a function that the driver lacks. */
	.globl guest_absent
	.hidden guest_absent
	.type guest_absent, @function
guest_absent:
	mov $CUDA_NOT_SUPPORTED, %eax
	ret
	.size guest_absent, . - guest_absent

	.globl guest_absent_nvml
	.hidden guest_absent_nvml
	.type guest_absent_nvml, @function
guest_absent_nvml:
	mov $NVML_FUNCTION_NOT_FOUND, %eax
	ret
	.size guest_absent_nvml, . - guest_absent_nvml

	.section .note.GNU-stack, "", @progbits
