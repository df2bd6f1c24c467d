/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "guest/process/changes.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/say.h"

/* Maps over one of our two pages, while other threads read it, on purpose. As a system call, since
 * tools that watch mmap() would report a race. */
static int map_over(const void *page, int protection, int flags, int fd)
{
	/* The offset is passed on the stack, where an int would fill only one half. */
	long at = syscall(SYS_mmap, page, WIRE_PAGE_SIZE, protection, flags | MAP_FIXED, fd, 0L);

	return at == -1 ? -errno : 0;
}

/* The present own page: a second mapping, and its inode. */
static struct {
	struct wire_own_page *also;
	ino_t inode;
} own;

/* The new daemon's tenant page, as long as it may show an open gate although memory is not on the
 * device: the daemon has not read the inventory, or does not believe it. Until then the private
 * page of a guest without a daemon stays. */
static struct wire_tenant_page *held;

static void held_drop(void)
{
	if (held)
		munmap(held, WIRE_PAGE_SIZE);
	held = NULL;
}

/* Whether the daemon counts all memory of this process that is out. */
static _Atomic uint32_t trust;
enum { TRUST_NOT_YET, TRUST_KNOWN, TRUST_NEVER };

static bool is_early(const struct wire_tenant_page *page)
{
	return parts_is_away() && (atomic_load(&trust) != TRUST_KNOWN ||
				   __atomic_load_n(&page->not_open, __ATOMIC_SEQ_CST) == 0);
}

void pages_trust(bool known)
{
	atomic_store(&trust, known ? TRUST_KNOWN : TRUST_NEVER);
	if (!known)
		say("meted does not know that memory of this program is in the host's memory: it "
		    "cannot come back, and calls that need it fail");
}

bool pages_are_forgotten(void)
{
	return atomic_load(&trust) == TRUST_NEVER && parts_is_away();
}

bool pages_wait(void)
{
	if (held && is_early(held))
		return true;
	/* Atomic for every reader. */
	if (held && syscall(SYS_mremap, held, WIRE_PAGE_SIZE, WIRE_PAGE_SIZE,
			    MREMAP_MAYMOVE | MREMAP_FIXED, &guest_tenant_page) == -1)
		held_drop();
	held = NULL;
	return false;
}

const struct wire_tenant_page *pages_of_daemon(void)
{
	return held ? held : &guest_tenant_page;
}

static void own_drop(void)
{
	if (own.also)
		munmap(own.also, WIRE_PAGE_SIZE);
	own.also = NULL;
}

void pages_clear(void)
{
	best_effort(map_over(&guest_tenant_page, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1));
	best_effort(
		map_over(&guest_own_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
	own_drop();
	held_drop();
}

static int page_bad(int fd, const char *which)
{
	struct stat about;
	int seals = fcntl(fd, F_GET_SEALS);

	if (syscall(SYS_fstat, fd, &about) == 0 && about.st_size == WIRE_PAGE_SIZE && seals >= 0 &&
	    (seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW))
		return 0;
	say("the daemon's %s page is not sealed or not %d bytes long: it is not used", which,
	    WIRE_PAGE_SIZE);
	return -EINVAL;
}

/* Finds the tenant's devices, whose order may have changed. */
static void devices_take(const struct wire_tenant_page *page, uint32_t count)
{
	uint32_t known = atomic_load(&state.devices);

	for (uint32_t i = 0; i < known; i++)
		atomic_store(&state.device[i].gone, 1);
	for (uint32_t w = 0; w < count; w++) {
		uint32_t i = 0;

		while (i < known && memcmp(state.device[i].uuid, page->device[w].uuid, 16) != 0)
			i++;
		if (i == STATE_DEVICES)
			continue;
		if (i == known) {
			memcpy(state.device[i].uuid, page->device[w].uuid, 16);
			known++;
		}
		atomic_store(&state.device[i].wire_index, w);
		atomic_store(&state.device[i].gone, 0);
	}
	atomic_store(&state.devices, known);
	for (int i = 0; i < STATE_ORDINALS; i++)
		atomic_store(&state.ordinal[i], 0);
}

static int tenant_page_bad(const struct wire_tenant_page *page)
{
	if (page->magic == WIRE_PAGE_MAGIC && page->devices <= WIRE_DEVICES)
		return 0;
	say("the daemon's tenant page has another version: update mete's library or its daemon");
	return -EINVAL;
}

/* Once the new page is in place no thread writes the old one, whose counts are then final. */
static int adopt_own(int fd)
{
	struct wire_own_page *page = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	struct stat about;
	int r = page == MAP_FAILED || syscall(SYS_fstat, fd, &about) != 0 ? -errno : 0;

	if (page == MAP_FAILED)
		return r;
	if (r == 0)
		r = map_over(&guest_own_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	if (r < 0) {
		munmap(page, WIRE_PAGE_SIZE);
		return r;
	}
	if (own.also && own.inode != about.st_ino)
		changes_carry(own.also);
	own_drop();
	own.also = page;
	own.inode = about.st_ino;
	return 0;
}

/* Pages that come later take the place of this one by mremap(). Without that, a gate would stay as
 * it is when meted has gone. */
static int remappable(void *page)
{
	if (syscall(SYS_mremap, page, WIRE_PAGE_SIZE, WIRE_PAGE_SIZE, 0) != -1)
		return 0;
	say_lack("mremap");
	return -EPERM;
}

int pages_adopt(int own_fd, int tenant_fd)
{
	owned(close) int mine = own_fd, tenant = tenant_fd;
	struct wire_tenant_page *seen;
	int r;

	if (page_bad(mine, "own") < 0 || page_bad(tenant, "tenant") < 0)
		return -EINVAL;
	seen = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ, MAP_SHARED, tenant, 0);
	if (seen == MAP_FAILED)
		return -errno;
	r = tenant_page_bad(seen);
	if (r == 0)
		r = remappable(seen);
	if (r == 0)
		r = adopt_own(mine);
	held_drop();
	atomic_store(&trust, TRUST_NOT_YET);
	if (r == 0 && !is_early(seen))
		r = map_over(&guest_tenant_page, PROT_READ, MAP_SHARED, tenant);
	else if (r == 0)
		held = seen;
	if (r == 0) {
		devices_take(seen, seen->devices);
		atomic_store(&state.on_loss, seen->on_daemon_loss);
		__atomic_store_n(&guest_own_page.magic, WIRE_PAGE_MAGIC, __ATOMIC_RELAXED);
		__atomic_store_n(&guest_own_page.size, (uint32_t)sizeof(guest_own_page),
				 __ATOMIC_RELAXED);
		parts_new_page();
	}
	if (seen != held)
		munmap(seen, WIRE_PAGE_SIZE);
	return r;
}

/* Nobody hears our reports, or waits by what is told. How much may be under way stays: what is
 * queued now is had when the next daemon is there, before anybody has paid for it. */
static void turns_lost(struct wire_tenant_turns *turns)
{
	*turns = (struct wire_tenant_turns){.flight_ns = turns->flight_ns,
					    .contended = turns->contended & WIRE_CAPPED};
}

void pages_lost(void)
{
	struct wire_tenant_page *copy = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t gate = WIRE_GATE_OPEN;

	atomic_store(&state.lost, 1);
	if (copy == MAP_FAILED)
		return;
	held_drop();
	memcpy(copy, &guest_tenant_page, sizeof(guest_tenant_page));
	/* Memory in the store waits for a daemon. */
	if (atomic_load(&state.on_loss) != WIRE_LOSS_CONTINUE || parts_is_away())
		gate = WIRE_GATE_CLOSED;
	copy->not_open = gate == WIRE_GATE_OPEN ? 0 : 1;
	for (uint32_t w = 0; w < WIRE_DEVICES; w++) {
		copy->device[w].gate = gate;
		turns_lost(&copy->turns[w]);
	}
	/* Remapping the finished copy over the page is atomic for every reader. */
	if (syscall(SYS_mremap, copy, WIRE_PAGE_SIZE, WIRE_PAGE_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
		    &guest_tenant_page) == -1)
		munmap(copy, WIRE_PAGE_SIZE);
}
