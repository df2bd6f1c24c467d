/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/notice.h"

#include <string.h>

#include "guest/clock.h"
#include "guest/futex.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/say.h"
#include "wire/wire.h"

/* meted's sentence why the awaited thing cannot come (HINDERED), or "". It is said once, after the
 * same waiting time and no more often than the other lines. */
static struct {
	struct futex_lock lock;
	_Atomic uint32_t unsaid;
	char by[WIRE_TEXT_MAX + 1];
} hindrance;

static void set_hindrance(const char *by)
{
	size_t length = strlen(by);

	futex_lock_take(&hindrance.lock);
	memcpy(hindrance.by, by, length + 1);
	atomic_store(&hindrance.unsaid, length != 0);
	futex_lock_give(&hindrance.lock);
}

void notice_forget(void)
{
	memset(&hindrance, 0, sizeof(hindrance));
}

/* Whoever is suspended waits for nothing that comes by itself. */
static enum notice at_last(enum notice why)
{
	switch (__atomic_load_n(&guest_tenant_page.stands, __ATOMIC_RELAXED)) {
	case WIRE_STANDS_SUSPENDED:
		return NOTICE_SUSPENDED;
	case WIRE_STANDS_HALTED:
		return NOTICE_HALTED;
	}
	return why;
}

static void say_hindrance(const char *what)
{
	char by[WIRE_TEXT_MAX + 1];

	futex_lock_take(&hindrance.lock);
	memcpy(by, hindrance.by, sizeof(by));
	futex_lock_give(&hindrance.lock);
	if (*by)
		say_aside("this program %s: %s (notices=off in its share silences this)", what, by);
}

void notice_wait(uint64_t *began_ns, enum notice why)
{
	static struct notice_rate rate, named;
	static const char *const what[] = {
		[NOTICE_TURN] = "waits for its turn on the GPU",
		[NOTICE_MEMORY] = "waits for its memory, which is off the GPU",
		[NOTICE_ROOM] = "waits for memory of the GPU",
		[NOTICE_SUSPENDED] = "is suspended, until somebody resumes it",
		[NOTICE_HALTED] = "is suspended, as its work on the GPU did not end",
	};
	uint64_t now = now_ns();

	why = at_last(why);
	if (!*began_ns)
		*began_ns = now;
	if (__atomic_load_n(&guest_tenant_page.quiet, __ATOMIC_RELAXED) || atomic_load(&state.lost))
		return;
	if (why < NOTICE_SUSPENDED && atomic_load(&hindrance.unsaid) &&
	    notice_due(&named, *began_ns, now) && atomic_exchange(&hindrance.unsaid, 0))
		say_hindrance(what[why]);
	else if (notice_due(&rate, *began_ns, now))
		say_aside("this program %s; `mete why` says why, and what helps "
			  "(notices=off in its share silences this)",
			  what[why]);
}

void notice_heard(const struct wire_message *message, int *fd)
{
	(void)fd;
	if (message->code == WIRE_hindered)
		set_hindrance(message->hindered.by.text);
}

void notice_up(void)
{
	set_hindrance("");
}
