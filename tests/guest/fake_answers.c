/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/guest/fake_answers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/socket.h>

#include "base/macros.h"

void fake_must(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	abort();
}

int fake_page_make(const struct fake *fake, const char *name, int read_only, void **ret_map)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int seals = F_SEAL_SHRINK | F_SEAL_GROW;

	fake_must(fd >= 0 && ftruncate(fd, WIRE_PAGE_SIZE) == 0, "memfd");
	*ret_map = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fake_must(*ret_map != MAP_FAILED, "mmap");
	if (fake->fault == FAKE_SHORT_PAGE)
		fake_must(ftruncate(fd, WIRE_PAGE_SIZE / 2) == 0, "ftruncate");
#ifdef F_SEAL_FUTURE_WRITE
	if (read_only)
		seals |= F_SEAL_FUTURE_WRITE;
#else
	(void)read_only;
#endif
	if (fake->fault != FAKE_UNSEALED)
		fake_must(fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL) == 0, "seals");
	return fd;
}

void fake_page_fill(struct fake *fake)
{
	struct wire_tenant_page *page = fake->page;

	if (fake->fault == FAKE_SHORT_PAGE)
		return;
	page->magic = fake->fault == FAKE_OTHER_PAGE ? 0 : WIRE_PAGE_MAGIC;
	page->size = sizeof(*page);
	page->devices = fake->fault == FAKE_MANY_DEVICES ? 1000 : (uint32_t)fake->devices;
	page->on_daemon_loss = fake->on_loss;
	page->clock_dilation = 1;
	for (int i = 0; i < fake->devices; i++) {
		memset(page->device[i].uuid, 0x11 + i, 16);
		page->device[i].total_bytes = 4ULL << 30;
		page->device[i].limit_bytes = fake->limit_bytes;
		page->device[i].gate = fake->shut ? WIRE_GATE_CLOSED : WIRE_GATE_OPEN;
	}
	page->not_open = fake->shut ? (uint32_t)fake->devices : 0;
}

void fake_send(int fd, const struct wire_message *message, const int *fds, int count)
{
	uint8_t frame[WIRE_FRAME_MAX];
	size_t size = wire_encode(message, frame);
	struct iovec part = {frame, size};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	if (count > 0) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)count * sizeof(int));
	}
	best_effort(sendmsg(fd, &header, MSG_NOSIGNAL));
}

static void noise(int fd)
{
	uint8_t bytes[64];
	struct wire_message stray = {.code = WIRE_credit_grant, .id = 0x7ffffff0};

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)random();
	best_effort(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL));
	best_effort(send(fd, bytes, 3, MSG_NOSIGNAL));
	fake_send(fd, &stray, NULL, 0);
	stray.code = WIRE_gate;
	stray.id = 0x80000001u;
	stray.gate.device = 0xffffffffu;
	stray.gate.state = 77;
	fake_send(fd, &stray, NULL, 0);
	stray.code = WIRE_credit_recall;
	stray.credit_recall.device = 99;
	stray.credit_recall.bytes = UINT64_MAX;
	fake_send(fd, &stray, NULL, 0);
}

void fake_drop(struct fake *fake, struct fake_guest *g)
{
	close(g->fd);
	if (g->own)
		munmap(g->own, WIRE_PAGE_SIZE);
	memset(g, 0, sizeof(*g));
	fake->guests--;
	pthread_cond_broadcast(&fake->changed);
}

void fake_forget(struct fake *fake, struct fake_guest *g)
{
	for (int i = 0; i < fake->devices; i++)
		fake->granted[i] -= g->granted[i];
	shutdown(g->fd, SHUT_RDWR);
	fake_drop(fake, g);
}

static void welcome(struct fake *fake, struct fake_guest *g, const struct wire_message *hello)
{
	struct wire_message answer = {.code = WIRE_welcome, .id = hello->id};
	void *own;
	int fds[2];

	g->pid = hello->hello.pid;
	fake->hellos++;
	/* A process is one guest, however often it connects. */
	for (int i = 0; i < FAKE_GUESTS; i++)
		if (&fake->guest[i] != g && fake->guest[i].fd > 0 && fake->guest[i].pid == g->pid)
			fake_forget(fake, &fake->guest[i]);
	if (fake->fault == FAKE_SILENT)
		return;
	if (fake->fault == FAKE_REFUSES) {
		answer.code = WIRE_refused;
		answer.refused.code = WIRE_REFUSED_IDENTITY;
		wire_set_text(&answer.refused.reason, "not you");
		fake_send(g->fd, &answer, NULL, 0);
		return;
	}
	fds[0] = fake_page_make(fake, "own", 0, &own);
	fds[1] = fake->tenant_fd;
	g->own = own;
	answer.welcome.major = fake->fault == FAKE_OTHER_MAJOR ? WIRE_MAJOR + 1 : WIRE_MAJOR;
	answer.welcome.minor = WIRE_MINOR;
	answer.welcome.devices = (uint32_t)fake->devices;
	fake_send(g->fd, &answer, fds, fake->fault == FAKE_NO_DESCRIPTORS ? 0 : 2);
	close(fds[0]);
}

void fake_credit_ask(struct fake *fake, struct fake_guest *g, const struct wire_message *m)
{
	struct wire_message answer = {.code = WIRE_credit_grant, .id = m->id};
	uint32_t device = m->credit_ask.device;
	uint64_t room, bytes;

	fake->asks++;
	fake->asked++;
	if (fake->hold) {
		fake->held = *m;
		fake->held_fd = g->fd + 1;
		return;
	}
	fake_must(device < (uint32_t)fake->devices, "device of CREDIT_ASK");
	room = fake->limit_bytes - fake->granted[device];
	bytes = m->credit_ask.want < room ? m->credit_ask.want : room;
	if (m->credit_ask.bytes > room) {
		fake->refusals++;
		answer.code = WIRE_refused;
		answer.refused.code = WIRE_REFUSED_LIMIT;
		wire_set_text(&answer.refused.reason, "the fake's limit is reached");
	} else {
		fake->granted[device] += bytes;
		g->granted[device] += bytes;
		answer.credit_grant.device = device;
		answer.credit_grant.bytes = bytes;
	}
	fake_send(g->fd, &answer, NULL, 0);
}

void fake_tell_pace(int fd, int device)
{
	struct wire_message message = {.code = WIRE_pace, .id = 0x80000002u};

	message.pace.device = (uint32_t)device;
	fake_send(fd, &message, NULL, 0);
}

static void said(struct fake *fake, struct fake_guest *g, const struct wire_message *m)
{
	uint8_t idle = m->code == WIRE_idle;
	uint32_t device = idle ? m->idle.device : m->wants.device;

	fake_must(device < (uint32_t)fake->devices, "device of WANTS or IDLE");
	g->idle[device] = idle;
	fake->idles += idle;
	fake->wants += !idle;
	if (!idle && fake->page->device[device].gate == WIRE_GATE_OPEN)
		fake_tell_pace(g->fd, (int)device);
}

static void end_look(const struct fake_guest *g, uint32_t id)
{
	struct wire_message end = {.code = WIRE_end, .id = id};

	fake_send(g->fd, &end, NULL, 0);
}

static void look(struct fake *fake, const struct fake_guest *g, uint32_t id)
{
	struct wire_message recall = {.code = WIRE_credit_recall, .id = 0x80000006u};

	if (fake->shows_granted)
		__atomic_store_n(&fake->page->device[0].granted_bytes, fake->granted[0],
				 __ATOMIC_RELAXED);
	recall.credit_recall.bytes = UINT64_MAX;
	if (fake->recalls_at_look == 0) {
		end_look(g, id);
		return;
	}
	fake->recalls_at_look--;
	fake->look_held = id;
	fake_send(g->fd, &recall, NULL, 0);
}

static void came_back(struct fake *fake, struct fake_guest *g, const struct wire_message *m)
{
	fake->granted[m->credit_return.device] -= m->credit_return.bytes;
	g->granted[m->credit_return.device] -= m->credit_return.bytes;
	fake->returned += m->credit_return.bytes;
	if (!m->credit_return.recall)
		return;
	fake->recalled++;
	if (fake->look_held)
		end_look(g, fake->look_held);
	fake->look_held = 0;
}

void fake_hear(struct fake *fake, struct fake_guest *g, const struct wire_message *m)
{
	struct wire_message done = {.code = WIRE_done, .id = m->id};
	uint32_t device;

	if (fake->fault == FAKE_GARBAGE)
		noise(g->fd);
	switch (m->code) {
	case WIRE_hello:
		welcome(fake, g, m);
		break;
	case WIRE_credit_ask:
		fake_credit_ask(fake, g, m);
		break;
	case WIRE_credit_return:
		came_back(fake, g, m);
		break;
	case WIRE_inventory:
		g->allocated = m->inventory.allocated;
		g->credit = m->inventory.credit;
		g->inventories++;
		fake->granted[m->inventory.device] += g->allocated + g->credit;
		g->granted[m->inventory.device] += g->allocated + g->credit;
		fake_send(g->fd, &done, NULL, 0);
		break;
	case WIRE_inventory_end:
		g->stated = 1;
		fake->statements++;
		fake_send(g->fd, &done, NULL, 0);
		break;
	case WIRE_residual_ask:
		fake->residual_asks++;
		fake_send(g->fd, &done, NULL, 0);
		break;
	case WIRE_residual_check:
		fake->residual_checks++;
		if (!fake->ignores_checks)
			fake_send(g->fd, &done, NULL, 0);
		break;
	case WIRE_residual_settle:
		fake->settles++;
		break;
	case WIRE_drained:
		device = m->drained.device;
		fake_must(device < (uint32_t)fake->devices, "device of DRAINED");
		if (m->drained.epoch == fake->page->device[device].epoch) {
			fake->drained_epoch[device] = m->drained.epoch;
			fake->drained_guests[device]++;
		}
		break;
	case WIRE_wants:
	case WIRE_idle:
		said(fake, g, m);
		break;
	case WIRE_processes_ask:
		look(fake, g, m->id);
		break;
	case WIRE_store_ask:
		/* Nothing moves. */
		done.code = WIRE_refused;
		done.refused.code = WIRE_REFUSED_UNKNOWN;
		wire_set_text(&done.refused.reason, "swap=off");
		fake_send(g->fd, &done, NULL, 0);
		break;
	default:
		break;
	}
	pthread_cond_broadcast(&fake->changed);
}

void fake_refuse_at_once(int fd)
{
	struct wire_message answer = {.code = WIRE_refused}; /* id 0: it has heard nothing */
	char rest[WIRE_FRAME_MAX];

	answer.refused.code = WIRE_REFUSED_FULL;
	wire_set_text(&answer.refused.reason, "no room");
	fake_send(fd, &answer, NULL, 0);
	shutdown(fd, SHUT_RDWR);
	while (recv(fd, rest, sizeof(rest), MSG_DONTWAIT) > 0) {
	}
	close(fd);
}
