/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two guests race for a tenant's memory from many threads each, again and again. In each round
 * every thread takes pieces until it is refused once: then the sum must be the limit, to the byte.
 * A byte more, and the limit did not hold; a piece less, and somebody was refused while there was
 * unused credit. Between rounds everything is freed into the guests' own credit.
 *
 *	racer SOCKET LIMIT PIECE THREADS ROUNDS
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/macros.h"
#include "wire/page.h"
#include "wire/wire.h"

enum { GUESTS = 2, MOST_THREADS = 64 };

struct waiter {
	uint32_t id;
	int answered;
	uint64_t granted;
};

struct shared {
	pthread_barrier_t barrier;
	uint64_t allocated[GUESTS];
	int bad;
};

static struct {
	int socket;
	struct wire_own_page *own;
	pthread_mutex_t lock;
	pthread_cond_t answered;
	uint64_t credit, allocated;
	uint32_t last_id;
	struct waiter waiters[MOST_THREADS];
	struct shared *shared;
	uint64_t limit, piece;
	int me, threads, rounds;
} r = {.lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};

static void noreturn_ give_up(const char *what)
{
	fprintf(stderr, "racer: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void say(const struct wire_message *message)
{
	uint8_t frame[WIRE_FRAME_MAX];
	size_t size = wire_encode(message, frame);

	if (send(r.socket, frame, size, MSG_NOSIGNAL) != (ssize_t)size)
		give_up("send");
}

static void publish(void)
{
	__atomic_store_n(&r.own->device[0].allocated_bytes, r.allocated, __ATOMIC_RELEASE);
	__atomic_store_n(&r.own->device[0].credit_bytes, r.credit, __ATOMIC_RELEASE);
}

/* Under the lock. */
static void on_recall(const struct wire_message *message)
{
	struct wire_message answer = {.code = WIRE_credit_return, .id = ++r.last_id};

	answer.credit_return.recall = message->id;
	answer.credit_return.bytes =
		r.credit < message->credit_recall.bytes ? r.credit : message->credit_recall.bytes;
	r.credit -= answer.credit_return.bytes;
	publish();
	say(&answer);
}

/* Under the lock. What exceeds the piece that was asked for is everybody's. */
static void on_answer(const struct wire_message *message)
{
	for (int i = 0; i < r.threads; i++) {
		struct waiter *w = &r.waiters[i];

		if (w->answered || w->id != message->id)
			continue;
		w->answered = 1;
		w->granted = message->code == WIRE_credit_grant ? message->credit_grant.bytes : 0;
		if (w->granted) {
			r.credit += w->granted - r.piece;
			r.allocated += r.piece;
			publish();
		}
		pthread_cond_broadcast(&r.answered);
	}
}

static void *listen_to_daemon(void *nothing)
{
	uint8_t frame[WIRE_FRAME_MAX];

	for (;;) {
		ssize_t n = recv(r.socket, frame, sizeof(frame), 0);
		struct wire_message message;

		if (n <= 0)
			return nothing;
		if (wire_decode(frame, (size_t)n, &message) != 0)
			give_up("decode");
		pthread_mutex_lock(&r.lock);
		if (message.code == WIRE_credit_recall)
			on_recall(&message);
		else
			on_answer(&message);
		pthread_mutex_unlock(&r.lock);
	}
}

/* One piece; returns whether it was got. */
static int take_piece(struct waiter *w)
{
	struct wire_message ask = {.code = WIRE_credit_ask};
	int got;

	pthread_mutex_lock(&r.lock);
	if (r.credit >= r.piece) {
		r.credit -= r.piece;
		r.allocated += r.piece;
		publish();
		pthread_mutex_unlock(&r.lock);
		return 1;
	}
	*w = (struct waiter){.id = ask.id = ++r.last_id};
	ask.credit_ask.bytes = r.piece;
	ask.credit_ask.want = 5 * r.piece;
	say(&ask);
	while (!w->answered)
		pthread_cond_wait(&r.answered, &r.lock);
	got = w->granted != 0;
	pthread_mutex_unlock(&r.lock);
	return got;
}

static void check(int round)
{
	uint64_t sum = r.shared->allocated[0] + r.shared->allocated[1];

	if (sum == r.limit)
		return;
	fprintf(stderr, "racer: round %d: %llu + %llu are allocated, the limit is %llu\n", round,
		(unsigned long long)r.shared->allocated[0],
		(unsigned long long)r.shared->allocated[1], (unsigned long long)r.limit);
	r.shared->bad = 1;
}

static void *race(void *own_waiter)
{
	struct waiter *w = own_waiter;
	int first = w == r.waiters;

	for (int round = 0; round < r.rounds; round++) {
		pthread_barrier_wait(&r.shared->barrier);
		while (take_piece(w)) {
		}
		pthread_barrier_wait(&r.shared->barrier);
		if (first)
			r.shared->allocated[r.me] = r.allocated;
		pthread_barrier_wait(&r.shared->barrier);
		if (first && r.me == 0)
			check(round);
		pthread_barrier_wait(&r.shared->barrier);
		if (first) {
			pthread_mutex_lock(&r.lock);
			r.credit += r.allocated;
			r.allocated = 0;
			publish();
			pthread_mutex_unlock(&r.lock);
		}
	}
	return NULL;
}

static void join(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct wire_message hello = {.code = WIRE_hello, .id = ++r.last_id}, answer;
	uint8_t frame[WIRE_FRAME_MAX], control[CMSG_SPACE(2 * sizeof(int))];
	struct iovec part = {frame, sizeof(frame)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control,
				.msg_controllen = sizeof(control)};
	int fds[2];
	ssize_t n;

	r.socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (r.socket < 0 || connect(r.socket, (struct sockaddr *)&address, sizeof(address)) != 0)
		give_up(path);
	hello.hello.major = WIRE_MAJOR;
	wire_set_text(&hello.hello.program, "racer");
	say(&hello);
	n = recvmsg(r.socket, &header, MSG_CMSG_CLOEXEC);
	if (n <= 0 || wire_decode(frame, (size_t)n, &answer) != 0 || answer.code != WIRE_welcome ||
	    !CMSG_FIRSTHDR(&header))
		give_up("WELCOME");
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(fds));
	r.own = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (r.own == MAP_FAILED)
		give_up("own page");
}

static int be_guest(const char *path)
{
	pthread_t threads[MOST_THREADS], listener;

	join(path);
	if (pthread_create(&listener, NULL, listen_to_daemon, NULL) != 0)
		give_up("thread");
	for (int i = 0; i < r.threads; i++) {
		r.waiters[i].answered = 1;
		if (pthread_create(&threads[i], NULL, race, &r.waiters[i]) != 0)
			give_up("thread");
	}
	for (int i = 0; i < r.threads; i++)
		pthread_join(threads[i], NULL);
	return r.shared->bad;
}

int main(int argc, char **argv)
{
	pthread_barrierattr_t between_processes;
	int bad = 0, status;

	if (argc != 6)
		return 2;
	r.limit = strtoull(argv[2], NULL, 10);
	r.piece = strtoull(argv[3], NULL, 10);
	r.threads = atoi(argv[4]);
	r.rounds = atoi(argv[5]);
	if (r.threads < 1 || r.threads > MOST_THREADS)
		return 2;
	r.shared = mmap(NULL, sizeof(*r.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (r.shared == MAP_FAILED)
		give_up("shared memory");
	pthread_barrierattr_init(&between_processes);
	pthread_barrierattr_setpshared(&between_processes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&r.shared->barrier, &between_processes,
			     (unsigned)(GUESTS * r.threads));
	for (r.me = 0; r.me < GUESTS; r.me++) {
		if (fork() == 0)
			_exit(be_guest(argv[1]));
	}
	while (wait(&status) > 0)
		bad |= status;
	return bad ? 1 : 0;
}
