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
#include "tests/guest/fake_answers.h"

static void admit(struct fake *fake)
{
	int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (fake->fault == FAKE_REFUSES_AT_ONCE) {
		fake_refuse_at_once(fd);
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
			fake_forget(fake, g);
		return;
	}
	fake_must(wire_decode(frame, (size_t)size, &message) == 0, "a frame that the guest sent");
	if (fake->fault == FAKE_HANGS_UP)
		fake_drop(fake, g);
	else
		fake_hear(fake, g, &message);
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

	fake->tenant_fd = fake_page_make(fake, "tenant", 1, &map);
	fake->page = map;
	memset(fake->granted, 0, sizeof(fake->granted));
	fake->statements = 0;
	fake_page_fill(fake);
	fake_must(pipe2(fake->wake, O_CLOEXEC) == 0, "pipe");
	fake->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	memcpy(at.sun_path, fake->socket_path, sizeof(fake->socket_path));
	unlink(fake->socket_path);
	fake_must(bind(fake->listener, (struct sockaddr *)&at, sizeof(at)) == 0, "bind");
	fake_must(listen(fake->listener, 64) == 0, "listen");
	fake_must(pthread_create(&fake->thread, NULL, serve, fake) == 0, "thread");
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
	fake_must(given || mkdtemp(fake->folder) != NULL, "mkdtemp");
	snprintf(fake->socket_path, sizeof(fake->socket_path), "%s/guest.sock", fake->folder);
	setenv("METE_SOCKET", fake->socket_path, 1);
	fake_restart(fake);
}

void fake_kill(struct fake *fake)
{
	fake_must(write(fake->wake[1], "", 1) == 1, "wake");
	pthread_join(fake->thread, NULL);
	for (int i = 0; i < FAKE_GUESTS; i++)
		if (fake->guest[i].fd > 0)
			fake_drop(fake, &fake->guest[i]);
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
			fake_send(fake->guest[i].fd, &message, NULL, 0);
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
	for (int i = 0; i < FAKE_GUESTS && pace->reports && !shown->reports; i++)
		fake->guest[i].idle[device] = 0;
	if (pace->reports && !shown->reports)
		__atomic_fetch_add(&shown->began, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->grace_ns, pace->grace_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->flight_ns, pace->flight_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->contended, pace->contended, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->reports, pace->reports, __ATOMIC_SEQ_CST);
	for (int i = 0; i < FAKE_GUESTS; i++)
		if (fake->guest[i].fd > 0)
			fake_tell_pace(fake->guest[i].fd, device);
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

/* A guest that has not said HELLO does not know of devices yet. */
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
	fake_send(g->fd, &message, NULL, 0);
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
	fake_send(g->fd, &message, NULL, 0);
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
		fake_credit_ask(fake, &fake->guest[i], &fake->held);
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