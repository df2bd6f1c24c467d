/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_load LIBRARY STATE: the threads of gate_load.h, until standard input ends. STATE is a file
 * that holds a struct law, by which the test tells that a close is acknowledged: then every stream
 * must be idle, and stay so. (The law driver counts in the same file.)
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/mman.h>

#include <dlfcn.h>

#include "base/macros.h"
#include "tests/guest/gate_load.h"

/* Read by AddressSanitizer. The leak check of LLVM 14 walks what threads that have just ended left
 * of their dynamic TLS, and once in some runs it crashes there; other tests find the guest's leaks.
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

static void look(struct law *law)
{
	if (__atomic_load_n(&law->acknowledged, __ATOMIC_SEQ_CST) && !load_idle())
		__atomic_fetch_add(&law->violations, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&law->checks, 1, __ATOMIC_SEQ_CST);
}

int main(int argc, char **argv)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	struct law *law;
	void *library;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: guest_load LIBRARY STATE\n");
		return 2;
	}
	fd = open(argv[2], O_RDWR | O_CLOEXEC);
	law = mmap(NULL, sizeof(*law), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	library = dlopen(argv[1], RTLD_NOW);
	if (law == MAP_FAILED || !library) {
		fprintf(stderr, "guest_load: %s\n", library ? argv[2] : dlerror());
		return 1;
	}
	load_find(library);
	load_start();
	printf("started\n");
	fflush(stdout);
	while (poll(&input, 1, 1) == 0)
		look(law);
	load_stop();
	return 0;
}
