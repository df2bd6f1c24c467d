/* SPDX-License-Identifier: Apache-2.0 */
/* The connection, as the agent advances it. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "guest/driver/real.h"
#include "guest/link/link_object.h"
#include "guest/process/pages.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/say.h"

enum {
	JOIN_MS = 5000,	 /* for joining, while a daemon is restarted */
	JOIN_TRIES = 20, /* each after a daemon has left */
	RETRY_JOIN_MS = 20,
	RETRY_FIRST_MS = 10, /* a daemon that is replaced is away for a few of these */
	RETRY_LAST_MS = 5000,
	COUNTS_MINOR = 3, /* of the first daemon that says what it counts */
	AT_ONCE = 64,	  /* frames, before the agent looks at its other work */
};

static bool joining(void)
{
	return atomic_load(&link_.verdict) == 0;
}

static void set_phase(enum link_phase phase)
{
	futex_lock_take(&link_.lock);
	atomic_store(&link_.phase, phase);
	futex_lock_give(&link_.lock);
}

static void set_verdict(int verdict)
{
	atomic_store(&link_.verdict, verdict);
	futex_wake_all(&link_.verdict);
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

void link_write_hello(struct wire_message *ret_hello)
{
	*ret_hello = (struct wire_message){.code = WIRE_hello, .id = link_new_id()};
	ret_hello->hello.major = WIRE_MAJOR;
	ret_hello->hello.minor = WIRE_MINOR;
	ret_hello->hello.pid = (uint32_t)getpid();
	ret_hello->hello.driver_version = (uint32_t)real_version();
	/* Our address in the process: no other copy of this library is there. */
	ret_hello->hello.copy = (uint64_t)(uintptr_t)&link_;
	program_name(&ret_hello->hello.program);
}

/* ---- losing it ------------------------------------------------------------------------------- */

static void try_again(int first_ms, int last_ms)
{
	link_.wait_ms = link_.wait_ms * 2 > last_ms ? last_ms : link_.wait_ms * 2;
	if (link_.wait_ms < first_ms)
		link_.wait_ms = first_ms;
	link_.deadline_ms = link_now_ms() + (uint64_t)link_.wait_ms;
}

static void lose(void)
{
	uint32_t phase = atomic_load(&link_.phase);

	/* From now on no further block begins to move. */
	parts_down();
	/* Before threads are woken: they must find the page of a guest without a daemon. */
	if (phase >= LINK_STATING)
		pages_lost();
	futex_lock_take(&link_.lock);
	atomic_store(&link_.phase, LINK_DOWN);
	socket_close(&link_.socket);
	for (int i = 0; i < LINK_ASKS; i++) {
		if (atomic_load(&link_.ask[i].state) != LINK_ASK_OPEN)
			continue;
		atomic_store(&link_.ask[i].state, LINK_ASK_LOST);
		futex_wake_all(&link_.ask[i].state);
	}
	futex_lock_give(&link_.lock);
	for (int i = 0; i < STATE_DEVICES; i++)
		parts_stated(i, true);
	if (phase == LINK_UP)
		link_.wait_ms = 0;
}

/* The reason was reported. Returns -errno while joining, which then fails. */
static int give_up(int error)
{
	if (!joining()) {
		try_again(RETRY_FIRST_MS, RETRY_LAST_MS);
		return 0;
	}
	set_verdict(error);
	return error;
}

/* The daemon went away, or does not answer, in the middle of a handshake. */
static int broken(bool silent)
{
	lose();
	if (socket_say_lack())
		return give_up(-EPERM);
	if (!joining()) {
		try_again(RETRY_FIRST_MS, RETRY_LAST_MS);
		return 0;
	}
	/* If the daemon is replaced while we join, our HELLO is lost with it; send it again to the
	 * next one. */
	if (!silent && ++link_.tries < JOIN_TRIES) {
		try_again(RETRY_JOIN_MS, RETRY_JOIN_MS);
		return 0;
	}
	say("the daemon does not answer: it %s",
	    silent ? "is stopped, or hangs; `mete doctor` says which, and what to do"
		   : "ends each connection; its log says why");
	return give_up(-ETIMEDOUT);
}

/* The daemon does not want us. A running program continues with what it has. */
static int refused(const char *sentence, int error)
{
	static _Atomic uint32_t said;

	if (joining() || atomic_exchange(&said, 1) == 0)
		say("the daemon refuses this program: %s", sentence);
	atomic_store(&link_.unwanted, 1);
	lose();
	return give_up(error);
}

static int other_version(void)
{
	static _Atomic uint32_t said;

	if (joining() || atomic_exchange(&said, 1) == 0)
		say("the daemon speaks another protocol version: update mete's library or its "
		    "daemon");
	atomic_store(&link_.unwanted, 1);
	lose();
	return give_up(-EPROTO);
}

/* ---- down ------------------------------------------------------------------------------------ */

static int not_connected(int error, const char *path)
{
	bool comes = error == -ECONNREFUSED || error == -EAGAIN;

	if (socket_say_lack())
		return give_up(error);
	if (!joining()) {
		try_again(RETRY_FIRST_MS, RETRY_LAST_MS);
		return 0;
	}
	/* If there is no socket at all, do not wait for it. */
	if (comes && link_now_ms() < link_.give_up_ms) {
		try_again(RETRY_JOIN_MS, RETRY_JOIN_MS);
		return 0;
	}
	say("no daemon at %s: %s; is meted running?", path, socket_reason(error));
	return give_up(error);
}

static int connect_now(void)
{
	const char *path = socket_path(joining());
	struct wire_message hello;
	struct socket made;
	int r;

	if (!link_.give_up_ms)
		link_.give_up_ms = link_now_ms() + JOIN_MS;
	if (!path)
		return give_up(-ENOENT);
	r = socket_connect(path, &made);
	if (r < 0)
		return not_connected(r, path);
	futex_lock_take(&link_.lock);
	link_.socket = made;
	atomic_store(&link_.phase, LINK_HELLO);
	futex_lock_give(&link_.lock);
	link_.deadline_ms = link_now_ms() + LINK_ANSWER_MS;
	link_write_hello(&hello);
	link_.hello_id = hello.id;
	r = socket_send(&made, &hello);
	/* If the daemon ended the connection, its reason can still be read. */
	return r < 0 && r != -EPIPE && r != -ECONNRESET ? broken(false) : 0;
}

/* Waits until the next attempt is due, or a thread knocks. */
static int step_down(int wait_us)
{
	uint32_t knocks = atomic_load(&link_.knocks);
	uint64_t now = link_now_ms();
	int wait_ms = wait_us < 0 ? RETRY_LAST_MS : wait_us / 1000 + 1;

	if (knocks != link_.heard_knocks) {
		link_.heard_knocks = knocks;
		if (link_.wait_ms > RETRY_FIRST_MS && link_.deadline_ms > now + RETRY_FIRST_MS)
			link_.deadline_ms = now + RETRY_FIRST_MS;
	}
	if (now >= link_.deadline_ms)
		return connect_now();
	if ((uint64_t)wait_ms > link_.deadline_ms - now)
		wait_ms = (int)(link_.deadline_ms - now);
	futex_wait(&link_.knocks, knocks, wait_ms, FUTEX_PRIVATE_FLAG);
	return 0;
}

/* ---- hello ----------------------------------------------------------------------------------- */

static int welcomed(const struct wire_message *answer, const int *fds)
{
	if (answer->code == WIRE_refused && answer->refused.code == WIRE_REFUSED_VERSION &&
	    !joining())
		return other_version();
	if (answer->code == WIRE_refused)
		return refused(answer->refused.reason.text, -EPERM);
	if (answer->code != WIRE_welcome || answer->welcome.major != WIRE_MAJOR || fds[0] < 0 ||
	    fds[1] < 0) {
		for (int i = 0; i < 2; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		return other_version();
	}
	if (pages_adopt(fds[0], fds[1]) < 0) {
		lose();
		return give_up(-EINVAL);
	}
	atomic_store(&link_.unwanted, 0);
	link_.sent = 0;
	link_.minor = answer->welcome.minor;
	link_.out = 0;
	link_.told = false;
	link_.first_id = link_new_id();
	atomic_fetch_add(&link_.next_id, STATE_DEVICES + 1);
	set_phase(LINK_STATING);
	return 0;
}

/* ---- stating --------------------------------------------------------------------------------- */

static void write_inventory(struct wire_message *message, int device)
{
	struct state_device *d = &state.device[device];
	struct wire_inventory *inventory = &message->inventory;

	message->code = WIRE_inventory;
	*inventory = (struct wire_inventory){.device = atomic_load(&d->wire_index),
					     .contexts = (uint32_t)atomic_load(&d->contexts)};
	parts_state(device, inventory);
	/* Only one device has any, and may be stated again. */
	if (inventory->out)
		link_.out = inventory->out;
	/* Includes grants that arrived meanwhile. */
	inventory->allocated = atomic_load(&d->granted) - inventory->credit;
}

/* 0; -EAGAIN; <0. */
static int send_now(struct wire_message *message)
{
	message->id = link_new_id();
	return socket_send(&link_.socket, message);
}

static int state_others(void)
{
	int r = link_.told ? 0 : parts_tell(send_now);

	link_.told = r == 0;
	return r;
}

static int state_more(void)
{
	uint32_t devices = atomic_load(&state.devices);
	struct wire_message message;
	int r;

	for (; link_.sent <= devices; link_.sent++) {
		if (link_.sent < devices && atomic_load(&state.device[link_.sent].gone))
			continue;
		if (link_.sent < devices) {
			write_inventory(&message, (int)link_.sent);
		} else {
			r = state_others();
			if (r < 0)
				return r == -EAGAIN ? 0 : broken(false);
			message.code = WIRE_inventory_end;
			message.inventory_end.devices = devices;
		}
		message.id = (link_.first_id + link_.sent) & 0x7fffffffu;
		r = socket_send(&link_.socket, &message);
		if (r == -EAGAIN)
			return 0;
		if (r < 0)
			return broken(false);
	}
	return 0;
}

/* An older daemon does not say what it counts. */
static bool counts_all(const struct wire_message *answer)
{
	return link_.minor < COUNTS_MINOR || link_.out == 0 ||
	       (answer->code == WIRE_done && answer->done.value >= link_.out);
}

static void come_up(const struct wire_message *answer)
{
	pages_trust(counts_all(answer));
	link_.wait_ms = 0;
	atomic_store(&state.lost, 0);
	parts_up();
	/* Before any thread may send: everything that is sent belongs to this connection. */
	atomic_fetch_add(&link_.generation, 1);
	set_phase(LINK_UP);
	parts_connected();
	futex_wake_all(&link_.generation);
	if (joining())
		set_verdict(1);
}

static void stated(const struct wire_message *answer)
{
	uint32_t devices = atomic_load(&state.devices);
	uint32_t index = (answer->id - link_.first_id) & 0x7fffffffu;

	if (index < devices && index < link_.sent)
		parts_stated((int)index, answer->code != WIRE_refused);
	/* A daemon that does not know the message does not object. */
	if (index == devices && link_.sent > devices)
		come_up(answer);
}

/* ---- up -------------------------------------------------------------------------------------- */

static struct link_ask_slot *slot_of(uint32_t id)
{
	for (int i = 0; i < LINK_ASKS; i++)
		if (link_.ask[i].id == id && atomic_load(&link_.ask[i].state) == LINK_ASK_OPEN)
			return &link_.ask[i];
	return NULL;
}

static void deliver(const struct wire_message *message, int *fd)
{
	struct link_ask_slot *slot;

	futex_lock_take(&link_.lock);
	slot = message->id ? slot_of(message->id) : NULL;
	if (slot && (message->code == WIRE_store || message->code == WIRE_channel) && *fd >= 0) {
		slot->fd = *fd + 1;
		*fd = -1;
	}
	if (slot && message->code == WIRE_process_row) {
		if (slot->rows && slot->count < slot->max)
			slot->rows[slot->count] = message->process_row;
		slot->count++;
	} else if (slot) {
		wire_take_answer(message, &slot->answer);
		if (message->code == WIRE_end)
			slot->answer.end.rows = slot->count;
		if (message->code == WIRE_credit_grant)
			slot->credit_asked =
				parts_granted(&message->credit_grant, slot->credit_asked);
		atomic_store(&slot->state, LINK_ASK_ANSWERED);
		futex_wake_all(&slot->state);
	} else if (message->code == WIRE_credit_grant) {
		/* The asking thread has given up. */
		best_effort(parts_granted(&message->credit_grant, 0));
	} else if (message->code == WIRE_segment) {
		parts_unread();
	}
	futex_lock_give(&link_.lock);
}

/* ---- all phases ------------------------------------------------------------------------------ */

/* Is it the answer to HELLO? A daemon may refuse a connection before it has read HELLO. */
static bool is_answer(const struct wire_message *message, uint32_t hello_id)
{
	return message->id == hello_id || (message->code == WIRE_refused && message->id <= 1);
}

static int heard(const struct wire_message *message, int *fds)
{
	uint32_t phase = atomic_load(&link_.phase);

	if (phase == LINK_HELLO)
		return is_answer(message, link_.hello_id) ? welcomed(message, fds) : 0;
	if (message->id & 0x80000000u)
		parts_heard(message, &fds[0]);
	else if (phase == LINK_STATING)
		stated(message);
	else
		deliver(message, &fds[0]);
	return 0;
}

/* Closes descriptors that were not taken. */
static void close_all(const int *fds)
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int read_some(void)
{
	struct wire_message message;
	int r = 0, failed;

	for (int i = 0; i < AT_ONCE && r == 0; i++) {
		bool hello = atomic_load(&link_.phase) == LINK_HELLO;
		uint32_t hello_id = link_.hello_id; /* after we gave up it may be another agent's */
		int fds[2] = {-1, -1};

		failed = socket_receive(&link_.socket, &message, fds);
		if (failed == -EAGAIN)
			break;
		if (failed < 0)
			return broken(false);
		if (failed == 0)
			r = heard(&message, fds);
		if (failed != 0 || !hello || !is_answer(&message, hello_id))
			close_all(fds);
		if (atomic_load(&link_.phase) == LINK_DOWN)
			break;
	}
	return r;
}

int link_step(int wait_us, bool writes)
{
	uint32_t phase = atomic_load(&link_.phase);
	uint64_t now = link_now_ms();
	int r;

	if (phase == LINK_DOWN)
		return step_down(wait_us);
	if (phase != LINK_UP) {
		int left_us = now < link_.deadline_ms ? (int)(link_.deadline_ms - now) * 1000 : 0;

		if (left_us == 0)
			return broken(true);
		if (wait_us < 0 || wait_us > left_us)
			wait_us = left_us;
		writes = phase == LINK_STATING && link_.sent <= atomic_load(&state.devices);
	}
	r = socket_wait(&link_.socket, (short)(POLLIN | (writes ? POLLOUT : 0)), wait_us);
	if (r < 0)
		return broken(false);
	r = r > 0 ? read_some() : 0;
	if (r == 0 && atomic_load(&link_.phase) == LINK_STATING)
		r = state_more();
	return r;
}
