/* SPDX-License-Identifier: Apache-2.0 */
/* The connection, as the program's threads use it. */
#include "guest/link/link.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "guest/link/link_object.h"
#include "guest/process/notice.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/say.h"

enum {
	SEND_MS = 1000, /* a daemon that reads nothing for this long counts as gone */
	KNOCK_MS = 50,	/* how often the daemon is looked for while somebody waits for it */
	NUDGE_MS = 1000,
	JOINED_MS = 30000, /* longer than the agent takes to give up */
};

struct link_object link_;

static uint32_t thread_id(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

uint32_t link_connection(void)
{
	return atomic_load(&link_.generation);
}

static bool is_up(void)
{
	return atomic_load(&link_.phase) == LINK_UP;
}

/* The program took our descriptor's number. The agent may be waiting on the former file, and we
 * cannot wake it. The daemon can: when a process connects again, its former connection ends. */
static void nudge(void)
{
	struct signals before;
	struct socket another;
	const char *path = socket_path(false);
	uint64_t last = atomic_load(&link_.nudged_ms), now = link_now_ms();

	if (!path || now - last < NUDGE_MS ||
	    !atomic_compare_exchange_strong(&link_.nudged_ms, &last, now))
		return;
	if (socket_connect(path, &another) < 0)
		return;
	link_lock(&before);
	link_write_hello(&link_.message);
	best_effort(socket_send(&another, &link_.message));
	link_unlock(&before);
	socket_close(&another);
}

/* With the lock held. */
static int send_message(struct link_word *word, uint32_t id)
{
	struct wire_message *message = &link_.message;
	int r;

	message->id = id;
	r = socket_send(&link_.socket, message);
	/* Counted with the lock held, as the page belongs to this connection. */
	if (r == 0 && message->code == WIRE_residual_settle)
		__atomic_fetch_add(&guest_own_page.settles, 1, __ATOMIC_SEQ_CST);
	if (r < 0 && word->unsent)
		word->unsent(word, message);
	return r;
}

/* The result of socket_send(), for callers that know nothing of descriptors. */
static int outcome(int r)
{
	if (r == -ESTALE)
		nudge();
	else if (r < 0 && r != -EAGAIN)
		best_effort(socket_say_lack());
	return r == 0 || r == -EAGAIN ? r : -ENOTCONN;
}

int link_try(struct link_word *word)
{
	struct signals before;
	int r = -ENOTCONN;

	link_lock(&before);
	if (is_up())
		r = word->write(word, &link_.message) != 0 ? LINK_MOOT
							   : send_message(word, link_new_id());
	link_unlock(&before);
	return r == LINK_MOOT ? r : outcome(r);
}

/* Waits until the daemon has read something. */
static void wait_for_room(uint64_t end)
{
	struct signals before;
	struct socket now;
	int wait_ms = (int)(end - link_now_ms());

	link_lock(&before);
	now = link_.socket;
	link_unlock(&before);
	/* In slices, because the connection may be replaced meanwhile. */
	if (now.fd > 0 && wait_ms > 0)
		best_effort(socket_wait(&now, POLLOUT, (wait_ms < 20 ? wait_ms : 20) * 1000));
}

int link_tell(struct link_word *word)
{
	uint64_t end = link_now_ms() + SEND_MS;
	int r;

	while ((r = link_try(word)) == -EAGAIN && link_now_ms() < end)
		wait_for_room(end);
	return r == -EAGAIN ? -ENOTCONN : r;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The asking thread left by longjmp(), or has ended, and will not fetch the answer. On the same
 * stack, a later call is not above an earlier one that is still in progress. */
static bool is_abandoned(const struct link_ask_slot *slot, uint32_t me, const void *frame)
{
	if (slot->thread == me)
		return (uintptr_t)frame >= (uintptr_t)slot->frame;
	return syscall(SYS_tgkill, getpid(), slot->thread, 0) != 0 && errno == ESRCH;
}

/* With the lock held. */
static int take_fd_of(struct link_ask_slot *slot)
{
	int fd = slot->fd - 1;

	slot->fd = 0;
	return fd;
}

static void close_fd_of(struct link_ask_slot *slot)
{
	int fd = take_fd_of(slot);

	if (fd >= 0)
		close(fd);
}

/* With the lock held. An answer's grant becomes common credit, its descriptor is closed. */
static void drop(struct link_ask_slot *slot)
{
	close_fd_of(slot);
	if (atomic_load(&slot->state) == LINK_ASK_ANSWERED &&
	    slot->answer.code == WIRE_credit_grant)
		parts_unclaimed(&slot->answer.credit_grant, slot->credit_asked);
	slot->id = 0;
	atomic_store(&slot->state, LINK_ASK_FREE);
}

/* With the lock held. */
static void drop_abandoned(const void *frame)
{
	uint32_t me = thread_id();
	int saved = errno;

	for (int i = 0; i < LINK_ASKS; i++)
		if (atomic_load(&link_.ask[i].state) != LINK_ASK_FREE &&
		    is_abandoned(&link_.ask[i], me, frame))
			drop(&link_.ask[i]);
	errno = saved;
}

void link_drop_unclaimed(void)
{
	struct signals before;

	link_lock(&before);
	drop_abandoned(NULL);
	link_unlock(&before);
}

/* With the lock held. NULL: all are taken. */
static struct link_ask_slot *free_slot(const void *frame)
{
	for (int tries = 0; tries < 2; tries++) {
		for (int i = 0; i < LINK_ASKS; i++)
			if (atomic_load(&link_.ask[i].state) == LINK_ASK_FREE)
				return &link_.ask[i];
		drop_abandoned(frame);
	}
	return NULL;
}

struct rows {
	struct wire_process_row *rows;
	size_t max;
};

/* 0: *ret_slot waits for the answer to *ret_id. */
static int send_ask(struct link_word *word, const struct rows *rows,
		    struct link_ask_slot **ret_slot, uint32_t *ret_id)
{
	const struct wire_message *message = &link_.message;
	struct link_ask_slot *slot = NULL;
	struct signals before;
	int r = -ENOTCONN;

	link_lock(&before);
	if (is_up()) {
		slot = free_slot(__builtin_frame_address(0));
		r = slot ? 0 : -EBUSY;
	}
	if (r == 0 && word->write(word, &link_.message) != 0)
		r = LINK_MOOT;
	if (r == 0) {
		*ret_id = link_new_id();
		r = send_message(word, *ret_id);
	}
	if (r == 0) {
		slot->id = *ret_id;
		slot->thread = thread_id();
		slot->frame = __builtin_frame_address(0);
		slot->credit_asked =
			message->code == WIRE_credit_ask ? message->credit_ask.bytes : 0;
		slot->rows = rows ? rows->rows : NULL;
		slot->max = rows ? rows->max : 0;
		slot->count = 0;
		atomic_store(&slot->state, LINK_ASK_OPEN);
		*ret_slot = slot;
	}
	link_unlock(&before);
	return r == LINK_MOOT || r == -EBUSY ? r : outcome(r);
}

/* 0; -ENOTCONN: the connection was lost, or the slot taken for abandoned; -ETIMEDOUT. The slot is
 * free afterwards. */
static int fetch(struct link_ask_slot *slot, uint32_t id, uint64_t end, bool for_room, int *ret_fd,
		 struct wire_answer *ret_answer)
{
	uint64_t began = 0;
	struct signals before;
	uint32_t now;
	int r = -ENOTCONN;

	while (atomic_load(&slot->state) == LINK_ASK_OPEN && link_now_ms() < end) {
		if (for_room)
			notice_wait(&began, NOTICE_ROOM);
		futex_wait(&slot->state, LINK_ASK_OPEN, 1000, FUTEX_PRIVATE_FLAG);
	}
	link_lock(&before);
	if (slot->id == id) {
		now = atomic_load(&slot->state);
		if (now == LINK_ASK_ANSWERED) {
			*ret_answer = slot->answer;
			if (ret_fd)
				*ret_fd = take_fd_of(slot);
			r = 0;
		} else if (now == LINK_ASK_OPEN) {
			r = -ETIMEDOUT;
		}
		close_fd_of(slot);
		slot->id = 0;
		atomic_store(&slot->state, LINK_ASK_FREE);
	}
	link_unlock(&before);
	return r;
}

static bool is_stolen(void)
{
	struct signals before;
	bool stolen;

	link_lock(&before);
	stolen = is_up() && !socket_is_ours(&link_.socket);
	link_unlock(&before);
	return stolen;
}

/* Is a connection up, or does it come up in time? `failed` does not count, because the agent may
 * not know yet that it is lost. */
static bool wait_up(uint32_t failed, uint64_t end)
{
	uint64_t away = link_now_ms() + LINK_AWAY_MS;
	uint32_t seen;

	if (end > away)
		end = away;
	for (;;) {
		seen = atomic_load(&link_.generation);
		if (is_up() && seen != failed)
			return true;
		if (atomic_load(&link_.unwanted) || link_now_ms() >= end)
			return false;
		atomic_fetch_add(&link_.knocks, 1);
		futex_wake_all(&link_.knocks);
		futex_wait(&link_.generation, seen, KNOCK_MS, FUTEX_PRIVATE_FLAG);
		if (is_stolen())
			nudge();
	}
}

static uint64_t longest_ms(enum link_patience patience)
{
	uint64_t wait_ns = __atomic_load_n(&guest_tenant_page.wait_ns, __ATOMIC_RELAXED);

	if (patience <= LINK_AT_ONCE)
		return LINK_ANSWER_MS;
	return LINK_ANSWER_MS + wait_ns / 1000000 +
	       (patience == LINK_FOR_ROOM ? LINK_ROOM_MS : LINK_TURN_MS);
}

static int ask(struct link_word *word, enum link_patience patience, const struct rows *rows,
	       int *ret_fd, struct wire_answer *ret_answer)
{
	uint64_t end = link_now_ms() + LINK_AWAY_MS + longest_ms(patience);
	uint32_t failed = atomic_load(&link_.generation) - 1, id;
	struct link_ask_slot *slot;
	int r = -ENOTCONN;

	while (patience == LINK_HERE ? is_up() : wait_up(failed, end)) {
		uint64_t answered = link_now_ms() + longest_ms(patience);
		uint32_t generation = atomic_load(&link_.generation);

		r = send_ask(word, rows, &slot, &id);
		if (r == 0)
			r = fetch(slot, id, answered < end ? answered : end,
				  patience >= LINK_FOR_ROOM, ret_fd, ret_answer);
		if (r == -EAGAIN || r == -EBUSY)
			wait_for_room(end);
		else if (r == -ENOTCONN && patience != LINK_HERE)
			failed = generation;
		else
			break;
		if (link_now_ms() >= end)
			break;
	}
	return r == -EAGAIN ? -ETIMEDOUT : r;
}

int link_ask(struct link_word *word, enum link_patience patience, int *ret_fd,
	     struct wire_answer *ret_answer)
{
	int saved = errno, r;

	if (ret_fd)
		*ret_fd = -1;
	r = ask(word, patience, NULL, ret_fd, ret_answer);

	errno = saved;
	return r;
}

struct processes_word {
	struct link_word word;
	int device;
};

static int write_processes(struct link_word *word, struct wire_message *message)
{
	const struct processes_word *about = container_of(word, struct processes_word, word);

	message->code = WIRE_processes_ask;
	message->processes_ask.device = atomic_load(&state.device[about->device].wire_index);
	return 0;
}

int link_processes(int device, struct wire_process_row *rows, size_t max, size_t *ret_rows)
{
	struct processes_word about = {{write_processes, NULL}, device};
	struct rows where = {rows, max};
	struct wire_answer answer;
	int saved = errno, r = ask(&about.word, LINK_AT_ONCE, &where, NULL, &answer);

	errno = saved;
	if (r != 0)
		return r;
	if (answer.code != WIRE_end)
		return -EPROTO;
	*ret_rows = (size_t)answer.end.rows;
	return 0;
}

/* ---- joining --------------------------------------------------------------------------------- */

int link_start(void)
{
	uint64_t now = link_now_ms();

	atomic_store(&link_.verdict, 0);
	link_.tries = 0;
	link_.deadline_ms = now;
	link_.give_up_ms = 0;
	return 0;
}

int link_await(void)
{
	uint64_t end = link_now_ms() + JOINED_MS;
	int verdict;

	while ((verdict = atomic_load(&link_.verdict)) == 0 && link_now_ms() < end)
		futex_wait(&link_.verdict, 0, 1000, FUTEX_PRIVATE_FLAG);
	if (verdict == 0) {
		say("could not join the daemon within %d s", JOINED_MS / 1000);
		return -ETIMEDOUT;
	}
	return verdict < 0 ? verdict : 0;
}

void link_forget(void)
{
	socket_close(&link_.socket);
	for (int i = 0; i < LINK_ASKS; i++)
		close_fd_of(&link_.ask[i]);
	memset(&link_, 0, sizeof(link_));
}
