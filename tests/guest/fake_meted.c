/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/guest/fake_meted.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/macros.h"

static void must(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	abort();
}

static int page_make(const struct fake *fake, const char *name, int read_only, void **ret_map)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int seals = F_SEAL_SHRINK | F_SEAL_GROW;

	must(fd >= 0 && ftruncate(fd, WIRE_PAGE_SIZE) == 0, "memfd");
	*ret_map = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(*ret_map != MAP_FAILED, "mmap");
	if (fake->fault == FAKE_SHORT_PAGE)
		must(ftruncate(fd, WIRE_PAGE_SIZE / 2) == 0, "ftruncate");
#ifdef F_SEAL_FUTURE_WRITE
	if (read_only)
		seals |= F_SEAL_FUTURE_WRITE;
#else
	(void)read_only;
#endif
	if (fake->fault != FAKE_UNSEALED)
		must(fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL) == 0, "seals");
	return fd;
}

static void page_fill(struct fake *fake)
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

static void send_with(int fd, const struct wire_message *message, const int *fds, int count)
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
	send_with(fd, &stray, NULL, 0);
	stray.code = WIRE_gate;
	stray.id = 0x80000001u;
	stray.gate.device = 0xffffffffu;
	stray.gate.state = 77;
	send_with(fd, &stray, NULL, 0);
	stray.code = WIRE_credit_recall;
	stray.credit_recall.device = 99;
	stray.credit_recall.bytes = UINT64_MAX;
	send_with(fd, &stray, NULL, 0);
}

static void drop(struct fake *fake, struct fake_guest *g)
{
	close(g->fd);
	if (g->own)
		munmap(g->own, WIRE_PAGE_SIZE);
	memset(g, 0, sizeof(*g));
	fake->guests--;
	pthread_cond_broadcast(&fake->changed);
}

/* It goes on elsewhere, and states there what it holds. */
static void forget(struct fake *fake, struct fake_guest *g)
{
	for (int i = 0; i < fake->devices; i++)
		fake->granted[i] -= g->granted[i];
	shutdown(g->fd, SHUT_RDWR);
	drop(fake, g);
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
			forget(fake, &fake->guest[i]);
	if (fake->fault == FAKE_SILENT)
		return;
	if (fake->fault == FAKE_REFUSES) {
		answer.code = WIRE_refused;
		answer.refused.code = WIRE_REFUSED_IDENTITY;
		wire_set_text(&answer.refused.reason, "not you");
		send_with(g->fd, &answer, NULL, 0);
		return;
	}
	fds[0] = page_make(fake, "own", 0, &own);
	fds[1] = fake->tenant_fd;
	g->own = own;
	answer.welcome.major = fake->fault == FAKE_OTHER_MAJOR ? WIRE_MAJOR + 1 : WIRE_MAJOR;
	answer.welcome.minor = WIRE_MINOR;
	answer.welcome.devices = (uint32_t)fake->devices;
	send_with(g->fd, &answer, fds, fake->fault == FAKE_NO_DESCRIPTORS ? 0 : 2);
	close(fds[0]);
}

static void credit_ask(struct fake *fake, struct fake_guest *g, const struct wire_message *m)
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
	must(device < (uint32_t)fake->devices, "device of CREDIT_ASK");
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
	send_with(g->fd, &answer, NULL, 0);
}

static void tell_pace(int fd, int device)
{
	struct wire_message message = {.code = WIRE_pace, .id = 0x80000002u};

	message.pace.device = (uint32_t)device;
	send_with(fd, &message, NULL, 0);
}

static void said(struct fake *fake, struct fake_guest *g, const struct wire_message *m)
{
	uint8_t idle = m->code == WIRE_idle;
	uint32_t device = idle ? m->idle.device : m->wants.device;

	must(device < (uint32_t)fake->devices, "device of WANTS or IDLE");
	g->idle[device] = idle;
	fake->idles += idle;
	fake->wants += !idle;
	if (!idle && fake->page->device[device].gate == WIRE_GATE_OPEN)
		tell_pace(g->fd, (int)device);
}

static void heard(struct fake *fake, struct fake_guest *g, const struct wire_message *m)
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
		credit_ask(fake, g, m);
		break;
	case WIRE_credit_return:
		fake->granted[m->credit_return.device] -= m->credit_return.bytes;
		g->granted[m->credit_return.device] -= m->credit_return.bytes;
		fake->returned += m->credit_return.bytes;
		if (m->credit_return.recall)
			fake->recalled++;
		break;
	case WIRE_inventory:
		g->allocated = m->inventory.allocated;
		g->credit = m->inventory.credit;
		g->inventories++;
		fake->granted[m->inventory.device] += g->allocated + g->credit;
		g->granted[m->inventory.device] += g->allocated + g->credit;
		send_with(g->fd, &done, NULL, 0);
		break;
	case WIRE_inventory_end:
		g->stated = 1;
		fake->statements++;
		send_with(g->fd, &done, NULL, 0);
		break;
	case WIRE_residual_ask:
		fake->residual_asks++;
		send_with(g->fd, &done, NULL, 0);
		break;
	case WIRE_residual_check:
		send_with(g->fd, &done, NULL, 0);
		break;
	case WIRE_residual_settle:
		fake->settles++;
		break;
	case WIRE_drained:
		device = m->drained.device;
		must(device < (uint32_t)fake->devices, "device of DRAINED");
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
		done.code = WIRE_end;
		send_with(g->fd, &done, NULL, 0);
		break;
	case WIRE_store_ask:
		/* Nothing moves. */
		done.code = WIRE_refused;
		done.refused.code = WIRE_REFUSED_UNKNOWN;
		wire_set_text(&done.refused.reason, "swap=off");
		send_with(g->fd, &done, NULL, 0);
		break;
	default:
		break;
	}
	pthread_cond_broadcast(&fake->changed);
}

/* As meted does that is out of descriptors: what was sent meanwhile is not looked at. */
static void turn_away(int fd)
{
	struct wire_message answer = {.code = WIRE_refused}; /* id 0: it has heard nothing */
	char rest[WIRE_FRAME_MAX];

	answer.refused.code = WIRE_REFUSED_FULL;
	wire_set_text(&answer.refused.reason, "no room");
	send_with(fd, &answer, NULL, 0);
	shutdown(fd, SHUT_RDWR);
	while (recv(fd, rest, sizeof(rest), MSG_DONTWAIT) > 0) {
	}
	close(fd);
}

static void admit(struct fake *fake)
{
	int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (fake->fault == FAKE_TURNS_AWAY) {
		turn_away(fd);
		return;
	}
	for (int i = 0; i < FAKE_GUESTS; i++) {
		if (fake->guest[i].fd > 0)
			continue;
		fake->guest[i].fd = fd;
		fake->guests++;
		return;
	}
	close(fd);
}

static void readable(struct fake *fake, struct fake_guest *g)
{
	uint8_t frame[WIRE_FRAME_MAX];
	struct wire_message message;
	ssize_t size = recv(g->fd, frame, sizeof(frame), MSG_DONTWAIT);

	if (size <= 0) {
		if (size == 0 || (errno != EAGAIN && errno != EINTR))
			forget(fake, g);
		return;
	}
	must(wire_decode(frame, (size_t)size, &message) == 0, "a frame that the guest sent");
	if (fake->fault == FAKE_HANGS_UP)
		drop(fake, g);
	else
		heard(fake, g, &message);
}

static void *serve(void *argument)
{
	struct fake *fake = argument;
	struct pollfd fds[FAKE_GUESTS + 2];
	char byte;

	for (;;) {
		int map[FAKE_GUESTS + 2], n = 2;

		fds[0] = (struct pollfd){.fd = fake->wake[0], .events = POLLIN};
		fds[1] = (struct pollfd){.fd = fake->listener, .events = POLLIN};
		pthread_mutex_lock(&fake->lock);
		for (int i = 0; i < FAKE_GUESTS; i++) {
			if (fake->guest[i].fd <= 0)
				continue;
			map[n] = i;
			fds[n++] = (struct pollfd){.fd = fake->guest[i].fd, .events = POLLIN};
		}
		pthread_mutex_unlock(&fake->lock);
		if (poll(fds, (nfds_t)n, -1) < 0)
			continue;
		if (fds[0].revents && read(fake->wake[0], &byte, 1) == 1)
			return NULL;
		pthread_mutex_lock(&fake->lock);
		if (fds[1].revents)
			admit(fake);
		for (int i = 2; i < n; i++)
			if (fds[i].revents && fake->guest[map[i]].fd == fds[i].fd)
				readable(fake, &fake->guest[map[i]]);
		pthread_mutex_unlock(&fake->lock);
	}
}

void fake_restart(struct fake *fake)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	void *map;

	fake->tenant_fd = page_make(fake, "tenant", 1, &map);
	fake->page = map;
	memset(fake->granted, 0, sizeof(fake->granted));
	fake->statements = 0;
	page_fill(fake);
	must(pipe2(fake->wake, O_CLOEXEC) == 0, "pipe");
	fake->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	memcpy(at.sun_path, fake->socket_path, sizeof(fake->socket_path));
	unlink(fake->socket_path);
	must(bind(fake->listener, (struct sockaddr *)&at, sizeof(at)) == 0, "bind");
	must(listen(fake->listener, 64) == 0, "listen");
	must(pthread_create(&fake->thread, NULL, serve, fake) == 0, "thread");
}

void fake_start(struct fake *fake, int devices, enum fake_fault fault)
{
	const char *given = getenv("METE_TEST_FOLDER");

	memset(fake, 0, sizeof(*fake));
	fake->fault = fault;
	fake->devices = devices;
	fake->limit_bytes = 1ULL << 30;
	pthread_mutex_init(&fake->lock, NULL);
	pthread_cond_init(&fake->changed, NULL);
	snprintf(fake->folder, sizeof(fake->folder), "%s", given ? given : "/tmp/mete-fake-XXXXXX");
	must(given || mkdtemp(fake->folder) != NULL, "mkdtemp");
	snprintf(fake->socket_path, sizeof(fake->socket_path), "%s/guest.sock", fake->folder);
	setenv("METE_SOCKET", fake->socket_path, 1);
	fake_restart(fake);
}

void fake_kill(struct fake *fake)
{
	must(write(fake->wake[1], "", 1) == 1, "wake");
	pthread_join(fake->thread, NULL);
	for (int i = 0; i < FAKE_GUESTS; i++)
		if (fake->guest[i].fd > 0)
			drop(fake, &fake->guest[i]);
	close(fake->listener);
	close(fake->wake[0]);
	close(fake->wake[1]);
	close(fake->tenant_fd);
	munmap(fake->page, WIRE_PAGE_SIZE);
}

void fake_stop(struct fake *fake)
{
	fake_kill(fake);
	unlink(fake->socket_path);
	rmdir(fake->folder);
}

static void tell(struct fake *fake, int device, uint32_t gate)
{
	struct wire_message message = {.code = WIRE_gate, .id = 0x80000001u};

	message.gate.device = (uint32_t)device;
	message.gate.state = gate;
	message.gate.epoch = fake->page->device[device].epoch;
	for (int i = 0; i < FAKE_GUESTS; i++)
		if (fake->guest[i].fd > 0)
			send_with(fake->guest[i].fd, &message, NULL, 0);
}

void fake_close_gate(struct fake *fake, int device)
{
	struct wire_tenant_device *d = &fake->page->device[device];

	pthread_mutex_lock(&fake->lock);
	fake->drained_guests[device] = 0;
	__atomic_store_n(&d->epoch, d->epoch + 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&d->gate, WIRE_GATE_CLOSED, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&fake->page->not_open, 1, __ATOMIC_SEQ_CST);
	tell(fake, device, WIRE_GATE_CLOSED);
	pthread_mutex_unlock(&fake->lock);
}

void fake_open_gate(struct fake *fake, int device)
{
	struct wire_tenant_device *d = &fake->page->device[device];

	pthread_mutex_lock(&fake->lock);
	__atomic_store_n(&d->epoch, d->epoch + 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&d->gate, WIRE_GATE_OPEN, __ATOMIC_SEQ_CST);
	__atomic_fetch_sub(&fake->page->not_open, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &d->gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	tell(fake, device, WIRE_GATE_OPEN);
	pthread_mutex_unlock(&fake->lock);
}

void fake_pace(struct fake *fake, int device, const struct wire_tenant_turns *pace)
{
	struct wire_tenant_turns *shown = &fake->page->turns[device];

	pthread_mutex_lock(&fake->lock);
	for (int i = 0; i < FAKE_GUESTS && pace->say && !shown->say; i++)
		fake->guest[i].idle[device] = 0;
	if (pace->say && !shown->say)
		__atomic_fetch_add(&shown->began, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->grace_ns, pace->grace_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->flight_ns, pace->flight_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->contended, pace->contended, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->say, pace->say, __ATOMIC_SEQ_CST);
	for (int i = 0; i < FAKE_GUESTS; i++)
		if (fake->guest[i].fd > 0)
			tell_pace(fake->guest[i].fd, device);
	pthread_mutex_unlock(&fake->lock);
}

static struct timespec after_ms(int wait_ms)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += wait_ms / 1000;
	t.tv_nsec += (long)(wait_ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

int fake_wait_drained(struct fake *fake, int device, int wait_ms)
{
	struct timespec end = after_ms(wait_ms);
	int drained, r = 0;

	pthread_mutex_lock(&fake->lock);
	while ((drained = fake->drained_guests[device] >= (uint32_t)fake->guests) == 0 && r == 0)
		r = pthread_cond_timedwait(&fake->changed, &fake->lock, &end);
	pthread_mutex_unlock(&fake->lock);
	return drained;
}

static int is_idle(const struct fake *fake, int device)
{
	for (int i = 0; i < FAKE_GUESTS; i++)
		if (fake->guest[i].fd > 0 && !fake->guest[i].idle[device])
			return 0;
	return fake->guests > 0;
}

int fake_wait_idle(struct fake *fake, int device, int idle, int wait_ms)
{
	struct timespec end = after_ms(wait_ms);
	int there, r = 0;

	pthread_mutex_lock(&fake->lock);
	while ((there = is_idle(fake, device) == idle) == 0 && r == 0)
		r = pthread_cond_timedwait(&fake->changed, &fake->lock, &end);
	pthread_mutex_unlock(&fake->lock);
	return there;
}

static uint64_t read_locked(struct fake *fake, const uint64_t *count)
{
	uint64_t now;

	pthread_mutex_lock(&fake->lock);
	now = *count;
	pthread_mutex_unlock(&fake->lock);
	return now;
}

uint64_t fake_heard_idle(struct fake *fake)
{
	return read_locked(fake, &fake->idles);
}

uint64_t fake_heard_wants(struct fake *fake)
{
	return read_locked(fake, &fake->wants);
}

uint64_t fake_waiting(struct fake *fake)
{
	uint64_t waiting = 0;

	pthread_mutex_lock(&fake->lock);
	for (int i = 0; i < FAKE_GUESTS; i++)
		if (fake->guest[i].own)
			waiting += __atomic_load_n(&fake->guest[i].own->waiting, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&fake->lock);
	return waiting;
}

/* Who has not said HELLO does not know of devices yet. */
static struct fake_guest *first_guest(struct fake *fake)
{
	for (int i = 0; i < FAKE_GUESTS; i++)
		if (fake->guest[i].fd > 0 && fake->guest[i].own)
			return &fake->guest[i];
	return NULL;
}

uint64_t fake_recall(struct fake *fake, int device, uint64_t bytes)
{
	struct wire_message message = {.code = WIRE_credit_recall, .id = 0x80000005u};
	uint64_t before, recalls;
	struct fake_guest *g;

	pthread_mutex_lock(&fake->lock);
	while (!(g = first_guest(fake)))
		pthread_cond_wait(&fake->changed, &fake->lock);
	before = fake->returned;
	recalls = fake->recalled;
	message.credit_recall.device = (uint32_t)device;
	message.credit_recall.bytes = bytes;
	send_with(g->fd, &message, NULL, 0);
	while (fake->recalled == recalls)
		pthread_cond_wait(&fake->changed, &fake->lock);
	before = fake->returned - before;
	pthread_mutex_unlock(&fake->lock);
	return before;
}

void fake_hinder(struct fake *fake, const char *by)
{
	struct wire_message message = {.code = WIRE_hindered, .id = 0x80000006u};
	struct fake_guest *g;

	wire_set_text(&message.hindered.by, by);
	pthread_mutex_lock(&fake->lock);
	while (!(g = first_guest(fake)))
		pthread_cond_wait(&fake->changed, &fake->lock);
	send_with(g->fd, &message, NULL, 0);
	pthread_mutex_unlock(&fake->lock);
}

void fake_hold(struct fake *fake, int hold)
{
	pthread_mutex_lock(&fake->lock);
	fake->hold = hold;
	for (int i = 0; i < FAKE_GUESTS && !hold && fake->held_fd; i++) {
		if (fake->guest[i].fd + 1 != fake->held_fd)
			continue;
		fake->held_fd = 0;
		credit_ask(fake, &fake->guest[i], &fake->held);
	}
	pthread_mutex_unlock(&fake->lock);
}

int fake_holds(struct fake *fake)
{
	int holds;

	pthread_mutex_lock(&fake->lock);
	holds = fake->held_fd != 0;
	pthread_mutex_unlock(&fake->lock);
	return holds;
}
