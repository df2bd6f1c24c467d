/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and pages that a process shares with meted; and its identity. */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/hostile/attack.h"
#include "wire/page.h"

enum { NOBODY = 65534, LAST_FD = 1024 };

static void close_from(int first)
{
	for (int fd = first; fd < LAST_FD; fd++)
		close(fd);
}

void attack_close_all(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 100 * MIB);
	close_from(3);
	take_everything();
}

void attack_own_files(void)
{
	int own = open("/dev/zero", O_RDWR);

	take_and_free();
	for (int fd = 3; fd < 64; fd++)
		if (fd != own && fcntl(fd, F_GETFD) >= 0)
			dup2(own, fd);
	take_everything();
}

void attack_own_sockets(void)
{
	CUdeviceptr address;
	int pair[2];

	g.cuMemAlloc_v2(&address, 50 * MIB);
	for (int fd = 3; fd < 64; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		close(fd);
		if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
			break;
		/* One that answers nothing, and one that answers noise. */
		best_effort(write(pair[1], "mete no such frame", 18));
	}
	take_everything();
}

static void close_again(void)
{
	uint64_t t = 0;

	while (until(&t, 600)) {
		close_from(3);
		usleep(5000);
	}
}

static void close_or_take(void)
{
	static int count;

	if (__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) == 0)
		close_again();
	else
		take_and_free();
}

void attack_close_storm(void)
{
	in_threads(5, close_or_take);
	take_everything();
}

/* A mapping of one of the shared pages, by what /proc calls it; and its length. */
static char *find_page(const char *name, const char *access, size_t *ret_size)
{
	char line[512], flags[8];
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long first, last;
	char *found = NULL;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, name) || sscanf(line, "%lx-%lx %7s", &first, &last, flags) != 3 ||
		    strncmp(flags, access, strlen(access)) != 0)
			continue;
		found = (char *)first; /* NOLINT(performance-no-int-to-ptr) */
		*ret_size = last - first;
	}
	if (maps)
		fclose(maps);
	return found;
}

static void scribble(void)
{
	uint64_t t = 0;
	size_t size;
	char *page = find_page("mete-guest", "rw", &size);

	while (page && until(&t, 600))
		for (size_t i = 0; i < WIRE_PAGE_SIZE; i++)
			page[i] = (char)rand();
}

static void scribble_or_take(void)
{
	static int count;

	if (__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) == 0)
		scribble();
	else
		take_and_free();
}

void attack_page_scribbled(void)
{
	in_threads(4, scribble_or_take);
	take_everything();
}

static struct wire_own_page *own_page(void)
{
	size_t size;

	return (struct wire_own_page *)find_page("mete-guest", "rw", &size);
}

static bool claiming;

static void claim_none(void)
{
	struct wire_own_page *own = own_page();

	while (own && claiming)
		for (int i = 0; i < WIRE_DEVICES; i++) {
			own->device[i] = (struct wire_own_device){0, 0, 0, 0};
			own->adrift_bytes[i] = own->loose_bytes[i] = 0;
		}
}

static void claim_all(void)
{
	struct wire_own_page *own = own_page();

	while (own && claiming)
		for (int i = 0; i < WIRE_DEVICES; i++) {
			own->device[i].allocated_bytes = 1ull << 62;
			own->adrift_bytes[i] = own->loose_bytes[i] = 1ull << 62;
			own->changes_begun = own->changes_ended = 7;
		}
}

static void take_all_ways(void)
{
	attack_contexts_many();
	attack_modules();
	attack_pools_destroyed();
	claiming = false;
}

static void (*claim)(void);

static void claim_or_take(void)
{
	static int count;

	if (__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) == 0)
		claim();
	else
		take_all_ways();
}

void attack_page_claims_none(void)
{
	claim = claim_none;
	claiming = true;
	in_threads(2, claim_or_take);
}

void attack_page_claims_all(void)
{
	claim = claim_all;
	claiming = true;
	in_threads(2, claim_or_take);
}

void attack_page_unmapped(void)
{
	size_t size;
	char *page = find_page("mete-guest", "rw", &size);

	take_and_free();
	if (page)
		munmap(page, size);
	take_everything();
}

void attack_limits_forged(void)
{
	static union {
		struct wire_tenant_page said;
		char room[WIRE_PAGE_SIZE];
	} forged;
	size_t size;
	char *page = find_page("mete-tenant", "r", &size);

	if (!page)
		return;
	memcpy(&forged, page, sizeof(forged));
	for (int i = 0; i < WIRE_DEVICES; i++) {
		forged.said.device[i].limit_bytes = forged.said.device[i].total_bytes;
		forged.said.device[i].room_bytes = forged.said.device[i].total_bytes;
		forged.said.device[i].used_bytes = forged.said.device[i].granted_bytes = 0;
	}
	if (mmap(page, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) != MAP_FAILED)
		memcpy(page, &forged, sizeof(forged));
	take_everything();
}

void attack_tenant_writable(void)
{
	char path[300], target[300];
	size_t size;
	char *page = find_page("mete-tenant", "r", &size);
	DIR *files = opendir("/proc/self/fd");
	struct dirent *entry;

	if (page && mprotect(page, size, PROT_READ | PROT_WRITE) == 0)
		memset(page, 0xff, size);
	while (files && (entry = readdir(files))) {
		int fd;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		/* The simulated machine's files are not ours to break: a GPU has none. */
		memset(target, 0, sizeof(target));
		best_effort(readlink(path, target, sizeof(target) - 1));
		fd = strstr(target, "mete-tenant") ? open(path, O_RDWR | O_CLOEXEC) : -1;
		if (fd >= 0)
			best_effort(pwrite(fd, path, sizeof(path), 0));
	}
	take_everything();
}

static void drop_user(void)
{
	best_effort(setgroups(0, NULL));
	best_effort(setgid(NOBODY));
	best_effort(setuid(NOBODY));
}

void attack_other_user(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 100 * MIB);
	drop_user();
	child(start_and_take);
	close_from(3);
	take_everything();
}

void attack_other_root(void)
{
	char folder[] = "/tmp/mete-empty-XXXXXX";
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 100 * MIB);
	if (mkdtemp(folder) && chroot(folder) == 0)
		best_effort(chdir("/"));
	close_from(3);
	take_everything();
}
