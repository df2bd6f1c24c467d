/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/threads.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "guest/signals.h"

enum {
	STACK_BYTES = 256 << 10, /* in addition to thread-local data */
};

static int add_thread_data(struct dl_phdr_info *object, size_t size, void *sum)
{
	(void)size;
	for (int i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum +=
				object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
	return 0;
}

/* glibc places the thread-local data of the program and its libraries on a thread's stack. */
static size_t stack_bytes(void)
{
	size_t bytes = STACK_BYTES;

	dl_iterate_phdr(add_thread_data, &bytes);
	return (bytes + 4095) & ~(size_t)4095;
}

int threads_start(void *(*run)(void *unused_argument))
{
	pthread_attr_t attributes;
	pthread_t thread;
	struct signals before;
	int r;

	if (pthread_attr_init(&attributes) != 0)
		return -ENOMEM;
	best_effort(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
	best_effort(pthread_attr_setstacksize(&attributes, stack_bytes()));
	/* The thread inherits the mask: no signal of the program is ever delivered to it. */
	signals_block(&before);
	r = pthread_create(&thread, &attributes, run, NULL);
	signals_restore(&before);
	best_effort(pthread_attr_destroy(&attributes));
	return -r;
}
