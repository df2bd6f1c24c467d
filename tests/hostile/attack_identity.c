/* SPDX-License-Identifier: Apache-2.0 */
/* Whom meted takes a process for: what of it the kernel lets the process itself write. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/forge_image.h"
#include "tests/hostile/attack.h"

enum { LAST_FD = 1024 };

static void disguise(void)
{
	if (!forge_image())
		perror("attack: PR_SET_MM_MAP");
}

/* It does not come again: its socket is nowhere. */
static void hang_up(void)
{
	setenv("METE_SOCKET", "/nonexistent", 1);
	for (int fd = 3; fd < LAST_FD; fd++) {
		best_effort(shutdown(fd, SHUT_RDWR));
		close(fd);
	}
}

/* A child of fork() would have no driver: they execute this program. */
static void take_in_children(void)
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			become("take-linear");
	usleep(700000);
}

/* As after execve() the connection is gone and the image is another, and all is held still. */
void attack_image_forged(void)
{
	char socket[4096];
	const char *given = getenv("METE_SOCKET");

	snprintf(socket, sizeof(socket), "%s", given ? given : "");
	take_everything();
	disguise();
	hang_up();
	usleep(300000);
	/* The children's. */
	setenv("METE_SOCKET", socket, 1);
	take_in_children();
}

/* A second copy of the library, with a context of its own. */
static void take_by_second_copy(void)
{
	void *copy = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
	CUcontext context;

	if (copy && ((api_fn_cuInit *)dlsym(copy, "cuInit"))(0) == CUDA_SUCCESS &&
	    ((api_fn_cuCtxCreate_v2 *)dlsym(copy, "cuCtxCreate_v2"))(&context, 0, g.device) ==
		    CUDA_SUCCESS)
		take_everything_by((api_fn_cuMemAlloc_v2 *)dlsym(copy, "cuMemAlloc_v2"));
}

/* It says HELLO for what seems to be another program. */
void attack_image_forged_copy(void)
{
	take_everything();
	disguise();
	take_by_second_copy();
	take_in_children();
	take_everything();
}

/* Under a `mete run` within a `mete run`: a process of both tenants, with children in each. */
void attack_two_shares(void)
{
	const char *outer = getenv("HOSTILE_OUTER"), *given = getenv("METE_SOCKET");
	char inner[4096];

	snprintf(inner, sizeof(inner), "%s", given ? given : "");
	if (outer)
		setenv("METE_SOCKET", outer, 1);
	start_and_take();
	take_in_children();
	setenv("METE_SOCKET", inner, 1);
	take_by_second_copy();
	take_in_children();
	take_everything();
}
