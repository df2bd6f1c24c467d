/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/link.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "guest/agent.h"
#include "guest/credit.h"
#include "guest/futex.h"
#include "guest/moves.h"
#include "guest/real.h"
#include "guest/say.h"
#include "guest/state.h"

#define SYSTEM_SOCKET "/run/mete/guest.sock"

enum {
	HELLO_TRIES = 20, /* to join, each after a daemon has gone */
	SEND_MS = 1000,	  /* a daemon that does not read for so long is as good as gone */
	RETRY_MS = 20,
};

/* A request under way; the place of the answer is the asker's. */
struct pending {
	uint32_t id;		/* 0: free */
	_Atomic uint32_t *done; /* a futex: 1 answered, 2 lost */
	struct wire_message *answer;
	struct wire_process_row *rows;
	size_t max, count;
	uint64_t credit_asked; /* of a CREDIT_ASK */
};

static struct {
	struct futex_lock lock; /* of everything here; the agent alone closes */
	int fd;			/* + 1: zero is none */
	_Atomic uint32_t next_id;
	struct pending pending[LINK_PENDING];
} link_;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void sleep_ms(int wait_ms)
{
	struct timespec wait = {wait_ms / 1000, (long)(wait_ms % 1000) * 1000000};

	nanosleep(&wait, NULL);
}

/* Above 2: a program that closed its standard descriptors must not find ours there. */
static int out_of_the_way(int fd)
{
	int moved;

	if (fd < 0 || fd > 2)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return moved;
}

static const char *socket_path(void)
{
	const char *given;

	if (syscall(SYS_faccessat, AT_FDCWD, SYSTEM_SOCKET, F_OK) == 0)
		return SYSTEM_SOCKET;
	given = secure_getenv("METE_SOCKET");
	if (!given || !*given) {
		say("no daemon: %s is not there and METE_SOCKET is not set; start the program with "
		    "'mete run'",
		    SYSTEM_SOCKET);
		return NULL;
	}
	if (given[0] != '/') {
		say("METE_SOCKET is '%s': an absolute path is accepted", given);
		return NULL;
	}
	return given;
}

static const char *connect_reason(int error)
{
	switch (error) {
	case ENOENT:
		return "no such socket";
	case ECONNREFUSED:
		return "nobody listens";
	case EACCES:
	case EPERM:
		return "not permitted";
	case ENAMETOOLONG:
		return "the path is too long for a socket";
	default:
		return "cannot be connected";
	}
}

/* Tries until somebody listens, at most wait_ms: a daemon that is being replaced comes back. A
 * socket that is not there at all is not waited for. */
static int open_socket(const char *path, int wait_ms)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	uint64_t end = now_ms() + (uint64_t)(wait_ms > 0 ? wait_ms : 0);
	int fd, error;

	if (strlen(path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	memcpy(to.sun_path, path, strlen(path) + 1);
	fd = out_of_the_way(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return -errno;
	while (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		error = errno;
		if (error == EINTR)
			continue;
		if ((error != ECONNREFUSED && error != EAGAIN) || now_ms() >= end) {
			close(fd);
			return -error;
		}
		sleep_ms(RETRY_MS);
	}
	return fd;
}

static int send_frame(int fd, const struct wire_message *message)
{
	uint8_t frame[WIRE_FRAME_MAX];
	size_t size = wire_encode(message, frame);

	if (send(fd, frame, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return -errno;
	return 0;
}

/* What came as descriptors: kept in fds[2] where they are wanted, closed otherwise. */
static void take_descriptors(struct msghdr *header, int *fds)
{
	int kept = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (fds && kept < 2)
				fds[kept++] = out_of_the_way(fd);
			else
				close(fd);
		}
	}
}

/* One packet. Returns wire_decode()'s outcome, or <0: nothing there (-EAGAIN), or lost. */
static int receive_frame(int fd, struct wire_message *message, int *fds)
{
	uint8_t frame[WIRE_FRAME_MAX];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(8 * sizeof(int))];
	} control;
	struct iovec part = {frame, sizeof(frame)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	ssize_t size;

	do {
		size = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (size < 0 && errno == EINTR);
	if (size < 0)
		return -errno;
	take_descriptors(&header, fds);
	if (size == 0)
		return -ECONNRESET;
	return wire_decode(frame, (size_t)size, message);
}

static int wait_readable(int fd, int wait_us)
{
	struct pollfd about = {.fd = fd, .events = POLLIN};
	struct timespec limit = {wait_us / 1000000, (long)(wait_us % 1000000) * 1000};
	int r = ppoll(&about, 1, wait_us < 0 ? NULL : &limit, NULL);

	if (r < 0 && errno != EINTR)
		return -errno;
	return r > 0;
}

/* For the handshake, when nobody else reads. */
static int receive_answer(int fd, uint32_t id, struct wire_message *answer, int *fds)
{
	uint64_t end = now_ms() + LINK_ANSWER_MS;
	int r;

	while (now_ms() < end) {
		r = wait_readable(fd, 100000);
		if (r < 0)
			return r;
		r = receive_frame(fd, answer, fds);
		if (r < 0 && r != -EAGAIN)
			return r;
		if (r == 0 && answer->id == id)
			return 0;
		if (r == 0)
			agent_heard(answer);
	}
	return -ETIMEDOUT;
}

static void program_name(wire_text *field)
{
	char path[1024];
	ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
	const char *name;

	if (size < 0)
		size = 0;
	path[size] = '\0';
	name = strrchr(path, '/');
	wire_set_text(field, name ? name + 1 : path);
}

static uint32_t new_id(void)
{
	uint32_t id;

	do {
		id = (atomic_fetch_add(&link_.next_id, 1) + 1) & 0x7fffffffu;
	} while (id == 0);
	return id;
}

/* While it reconnects the guest keeps silent about a daemon that is only just coming or going. */
static int shake_hands(int fd, bool joining, bool last, struct wire_message *answer, int *fds)
{
	struct wire_message hello = {.code = WIRE_hello, .id = new_id()};
	int r;

	hello.hello.major = WIRE_MAJOR;
	hello.hello.minor = WIRE_MINOR;
	hello.hello.pid = (uint32_t)getpid();
	hello.hello.driver_version = (uint32_t)real_version();
	program_name(&hello.hello.program);
	r = send_frame(fd, &hello);
	if (r == 0)
		r = receive_answer(fd, hello.id, answer, fds);
	if (r < 0) {
		if (joining && last)
			say("the daemon does not answer");
		return r;
	}
	if (answer->code == WIRE_refused) {
		if (joining)
			say("the daemon refuses this program: %s", answer->refused.reason.text);
		return -EPERM;
	}
	if (answer->code != WIRE_welcome || answer->welcome.major != WIRE_MAJOR || fds[0] < 0 ||
	    fds[1] < 0) {
		say("the daemon speaks another version: update mete's library or its daemon");
		return -EPROTO;
	}
	return 0;
}

int link_connect(int wait_ms)
{
	const char *path = socket_path();
	struct wire_message answer = {.code = 0};
	owned(close) int fd = -1;
	int fds[2] = {-1, -1};
	int r;

	if (!path)
		return -ENOENT;
	/* A daemon that is replaced while we join takes our HELLO along: said again to the next. */
	for (int tries = 0;; tries++) {
		bool last = wait_ms <= 0 || tries == HELLO_TRIES;

		fd = open_socket(path, wait_ms);
		if (fd < 0) {
			if (wait_ms > 0)
				say("no daemon at %s: %s; is meted running?", path,
				    connect_reason(-fd));
			return fd;
		}
		r = shake_hands(fd, wait_ms > 0, last, &answer, fds);
		if (r == 0 || last || r == -EPERM || r == -EPROTO)
			break;
		close(take_fd(&fd));
	}
	if (r == 0)
		r = state_adopt_pages(take_fd(&fds[0]), take_fd(&fds[1]));
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (r < 0)
		return r;
	futex_lock_take(&link_.lock);
	link_.fd = take_fd(&fd) + 1;
	futex_lock_give(&link_.lock);
	return 0;
}

static struct pending *pending_of(uint32_t id)
{
	for (int i = 0; i < LINK_PENDING; i++)
		if (link_.pending[i].id == id)
			return &link_.pending[i];
	return NULL;
}

/* With the lock held. */
static void finish(struct pending *pending, uint32_t how)
{
	_Atomic uint32_t *done = pending->done;

	pending->id = 0;
	atomic_store(done, how);
	futex_wake_all(done);
}

static void deliver(const struct wire_message *message)
{
	struct pending *pending;

	futex_lock_take(&link_.lock);
	pending = message->id ? pending_of(message->id) : NULL;
	if (pending && message->code == WIRE_process_row) {
		if (pending->rows && pending->count < pending->max)
			pending->rows[pending->count] = message->process_row;
		pending->count++;
	} else if (pending) {
		/* Before the page shows it: the asker goes on with what it is about to take. */
		if (message->code == WIRE_credit_grant &&
		    message->credit_grant.bytes >= pending->credit_asked)
			moves_begin();
		if (message->code == WIRE_credit_grant)
			credit_arrived(message->credit_grant.device, message->credit_grant.bytes,
				       pending->credit_asked);
		*pending->answer = *message;
		if (message->code == WIRE_end)
			pending->answer->end.rows = pending->count;
		finish(pending, 1);
	} else if (message->code == WIRE_credit_grant) {
		/* Its asker has given up. */
		credit_arrived(message->credit_grant.device, message->credit_grant.bytes, 0);
	}
	futex_lock_give(&link_.lock);
}

int link_pump(int wait_us)
{
	int fd = link_.fd - 1; /* the agent's own to change */
	struct wire_message message;
	int r;

	if (fd < 0)
		return -ENOTCONN;
	r = wait_readable(fd, wait_us);
	if (r <= 0)
		return r;
	while ((r = receive_frame(fd, &message, NULL)) >= 0) {
		if (r != 0)
			continue;
		if (message.id & 0x80000000u)
			agent_heard(&message);
		else
			deliver(&message);
	}
	return r == -EAGAIN ? 0 : r;
}

/* The lock makes sure that the descriptor is still ours while it is used. */
static int send_message(const struct wire_message *message)
{
	uint64_t end = 0;
	int r;

	for (;;) {
		futex_lock_take(&link_.lock);
		r = link_.fd > 0 ? send_frame(link_.fd - 1, message) : -ENOTCONN;
		/* With the lock held: the page is this connection's. */
		if (r == 0 && message->code == WIRE_residual_settle)
			__atomic_fetch_add(&guest_own_page.settles, 1, __ATOMIC_SEQ_CST);
		futex_lock_give(&link_.lock);
		if (r != -EAGAIN && r != -EINTR)
			return r == 0 ? 0 : -ENOTCONN;
		if (end == 0)
			end = now_ms() + SEND_MS;
		if (now_ms() >= end)
			return -ENOTCONN;
		sleep_ms(1);
	}
}

int link_send(struct wire_message *message)
{
	message->id = new_id();
	return send_message(message);
}

static int enlist(const struct pending *request)
{
	struct pending *place = NULL;
	bool there;

	for (int tries = 0; tries < LINK_ANSWER_MS; tries++) {
		futex_lock_take(&link_.lock);
		there = link_.fd > 0;
		if (there)
			place = pending_of(0);
		if (place)
			*place = *request;
		futex_lock_give(&link_.lock);
		if (place || !there)
			return place ? 0 : -ENOTCONN;
		sleep_ms(1);
	}
	return -EBUSY;
}

/* The asker gives up; returns whether the answer came in the last moment. */
static int withdraw(uint32_t id, _Atomic uint32_t *done)
{
	struct pending *pending;

	futex_lock_take(&link_.lock);
	pending = pending_of(id);
	if (pending)
		pending->id = 0;
	futex_lock_give(&link_.lock);
	return atomic_load(done) == 1;
}

static int ask(struct wire_message *message, int patient, struct pending *request)
{
	_Atomic uint32_t *done = request->done;
	uint64_t end = now_ms() + LINK_ANSWER_MS;
	int saved = errno;
	int r;

	message->id = new_id();
	request->id = message->id;
	if (message->code == WIRE_credit_ask)
		request->credit_asked = message->credit_ask.bytes;
	r = enlist(request);
	if (r < 0)
		return r;
	r = send_message(message);
	if (r < 0)
		return withdraw(message->id, done) ? 0 : r;
	while (atomic_load(done) == 0) {
		futex_wait(done, 0, 1000, FUTEX_PRIVATE_FLAG);
		if (atomic_load(done) == 0 && !patient && now_ms() >= end)
			return withdraw(message->id, done) ? 0 : -ETIMEDOUT;
	}
	errno = saved;
	return atomic_load(done) == 1 ? 0 : -ENOTCONN;
}

int link_ask(struct wire_message *message, int patient, struct wire_message *ret_answer)
{
	_Atomic uint32_t done = 0;
	struct pending request = {.done = &done, .answer = ret_answer};

	return ask(message, patient, &request);
}

int link_ask_directly(struct wire_message *message, struct wire_message *ret_answer)
{
	int fd = link_.fd - 1;
	int r;

	message->id = new_id();
	r = send_message(message);
	return r < 0 ? r : receive_answer(fd, message->id, ret_answer, NULL);
}

int link_processes(int device, struct wire_process_row *rows, size_t max, size_t *ret_rows)
{
	struct wire_message message = {.code = WIRE_processes_ask}, answer = {.code = 0};
	_Atomic uint32_t done = 0;
	struct pending request = {.done = &done, .answer = &answer, .rows = rows, .max = max};
	int r;

	message.processes_ask.device = atomic_load(&state.device[device].wire_index);
	r = ask(&message, 0, &request);
	if (r < 0)
		return r;
	if (answer.code != WIRE_end)
		return -EPROTO;
	*ret_rows = (size_t)answer.end.rows;
	return 0;
}

void link_drop(void)
{
	futex_lock_take(&link_.lock);
	if (link_.fd > 0)
		close(link_.fd - 1);
	link_.fd = 0;
	for (int i = 0; i < LINK_PENDING; i++)
		if (link_.pending[i].id)
			finish(&link_.pending[i], 2);
	futex_lock_give(&link_.lock);
}

uint32_t link_number(void)
{
	return atomic_load(&state.connection);
}

int link_wait_back(uint32_t number, int wait_ms)
{
	uint64_t end = now_ms() + (uint64_t)wait_ms;

	while (link_number() == number && now_ms() < end)
		futex_wait(&state.connection, number, 100, FUTEX_PRIVATE_FLAG);
	return link_number() != number;
}

void link_forget(void)
{
	if (link_.fd > 0)
		close(link_.fd - 1);
	memset(&link_, 0, sizeof(link_));
}
