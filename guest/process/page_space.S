/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of the tenant's page and of the own page: whole pages of zeros, at addresses known when
 * the library is linked, over which the daemon's pages are mapped. Zero is "every gate is open".
 */
	.bss
	.p2align 12
	.globl guest_tenant_page
	.hidden guest_tenant_page
	.type guest_tenant_page, @object
	.size guest_tenant_page, 4096
guest_tenant_page:
	.zero 4096
	.globl guest_own_page
	.hidden guest_own_page
	.type guest_own_page, @object
	.size guest_own_page, 4096
guest_own_page:
	.zero 4096
	.section .note.GNU-stack, "", @progbits
