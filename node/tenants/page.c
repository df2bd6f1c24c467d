/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants/page.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "wire/page.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

/* A second descriptor of the same memory that is open for reading only. */
static int reopen_read_only(int fd)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	return again < 0 ? -errno : again;
}

int page_make(struct page *ret_page, const char *name, enum page_kind kind)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	owned(close) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), give = -1;
	void *memory;

	if (fd < 0 || ftruncate(fd, WIRE_PAGE_SIZE) != 0)
		return -errno;
	memory = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	/* After our own mapping was made: the seal lets existing ones go on writing. */
	if (kind == PAGE_GUEST_READS)
		seals |= F_SEAL_FUTURE_WRITE;
	if (fcntl(fd, F_ADD_SEALS, seals) != 0) {
		int error = -errno;

		munmap(memory, WIRE_PAGE_SIZE);
		return error;
	}
	give = kind == PAGE_GUEST_READS ? reopen_read_only(fd) : take_fd(&fd);
	if (give < 0) {
		munmap(memory, WIRE_PAGE_SIZE);
		return give;
	}
	*ret_page = (struct page){memory, take_fd(&give)};
	return 0;
}

void page_forget_fd(struct page *page)
{
	if (page->fd >= 0)
		close(page->fd);
	page->fd = -1;
}

void page_done(struct page *page)
{
	if (!page->memory)
		return;
	page_forget_fd(page);
	munmap(page->memory, WIRE_PAGE_SIZE);
	page->memory = NULL;
}
