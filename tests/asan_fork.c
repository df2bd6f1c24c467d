/* SPDX-License-Identifier: Apache-2.0 */
/* A child of fork() gets the locks of AddressSanitizer's allocator as another thread of its parent
 * held them, and its first malloc() waits for ever (LLVM 14). LLVM 17 takes them around a fork():
 * so does this file, with the functions that LLVM 14 has for its leak check. */
#include <pthread.h>
#include <stdlib.h>

void threads_lock(void) __asm__("_ZN6__lsan18LockThreadRegistryEv");
void threads_unlock(void) __asm__("_ZN6__lsan20UnlockThreadRegistryEv");
void allocator_lock(void) __asm__("_ZN6__lsan13LockAllocatorEv");
void allocator_unlock(void) __asm__("_ZN6__lsan15UnlockAllocatorEv");
void traces_lock(void) __asm__("_ZN11__sanitizer17StackDepotLockAllEv");
void traces_unlock(void) __asm__("_ZN11__sanitizer19StackDepotUnlockAllEv");

static void before_fork(void)
{
	threads_lock();
	allocator_lock();
	traces_lock();
}

static void after_fork(void)
{
	traces_unlock();
	allocator_unlock();
	threads_unlock();
}

static void install(int argc, char **argv, char **envp)
{
	(void)argc;
	(void)argv;
	(void)envp;
	if (pthread_atfork(before_fork, after_fork, after_fork) != 0)
		abort();
}

/* Before the constructors of all libraries, so that other libraries may still allocate in their
 * handlers: the last ones run first before a fork(). */
__attribute__((section(".preinit_array"), used)) static void (*const installer)(int, char **,
										char **) = install;
