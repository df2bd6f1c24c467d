/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a tenant that waits, hangs or is stuck, and as the Kubernetes part is told of them. The
 * clock and the tenant's figures are this file. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/doing.h"
#include "node/events.h"
#include "node/peers/rows.h"
#include "node/state/recorder.h"
#include "node/upcalls.h"
#include "node/waits.h"
#include "tests/test.h"

enum { LOOK_S = 5 };

static const uint64_t second_ns = 1000000000;

static struct daemon *d;
static struct tenant *tenant;
static uint64_t now_ns, due_ns;
static struct wire_tenant_row figures;
static char said[200];		 /* a word for each */
static char happened[400];	 /* likewise, of events */
static char sentence[200];	 /* of the last of them */
static bool refuses;		 /* the Kubernetes part */
static struct host_waiting last; /* what it was told */
static uint32_t doing_told;	 /* likewise */

uint64_t loop_now_ns(void)
{
	return now_ns;
}

int loop_timer_init(struct loop *loop, struct loop_timer *timer,
		    void (*due)(struct loop_timer *timer))
{
	(void)loop;
	timer->due = due;
	return 0;
}

void loop_arm(struct loop_timer *timer, uint64_t delay_ns)
{
	(void)timer;
	due_ns = now_ns + delay_ns;
}

void loop_timer_close(struct loop_timer *timer, void (*closed)(struct loop_timer *timer))
{
	(void)timer;
	(void)closed;
}

void rows_tenant(struct tenant *t, uint32_t device, struct wire_tenant_row *ret_row)
{
	(void)t;
	(void)device;
	*ret_row = figures;
}

/* What the journal has. */
void recorder_told(const struct tenant_device *at)
{
	(void)at;
}

void events_at(const struct tenant_device *at, enum happened kind, const char *format, ...)
{
	size_t used = strlen(happened);

	va_list arguments;

	(void)at;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	snprintf(happened + used, sizeof(happened) - used, "%s%s", used ? " " : "",
		 happened_word(kind));
}

static bool told(void *owner, const struct host_waiting *news)
{
	static const char *const words[] = {
		[HOST_WAITS_MEMORY] = "memory", [HOST_HANGS] = "hangs", [HOST_STUCK] = "stuck"};
	size_t used = strlen(said);

	(void)owner;
	if (refuses)
		return false;
	expect_eq(news->tenant, 7);
	last = *news;
	doing_told = news->row->doing;
	snprintf(said + used, sizeof(said) - used, "%s%s%s", used ? " " : "",
		 news->over_ns ? "no-" : "", words[news->kind]);
	if (news->over_ns && news->refused)
		strcat(said, "-refused");
	return true;
}

static void begin(void)
{
	d = calloc(1, sizeof(*d));
	tenant = calloc(1, sizeof(*tenant) + sizeof(tenant->device[0]));
	expect(d && tenant);
	now_ns = 1000 * second_ns;
	due_ns = 0;
	*said = '\0';
	memset(&figures, 0, sizeof(figures));
	figures.doing = DOING_RUNNING;
	refuses = false;
	list_init(&d->tenants.all);
	list_append(&d->tenants.all, &tenant->link);
	list_init(&tenant->guests);
	d->options.look_ns = LOOK_S * second_ns;
	tenant->daemon = d;
	tenant->id = 7;
	tenant->pods = true;
	tenant->devices = 1;
	tenant->device[0].tenant = tenant;
	expect_eq(waits_open(d), 0);
	waits_tell(d, told, NULL);
	*happened = '\0';
}

static void end(void)
{
	waits_close(d);
	free(tenant);
	free(d);
}

/* So many checks; a state that goes on meanwhile lasts longer. */
static void look(unsigned times)
{
	for (; times; times--) {
		expect(due_ns >= now_ns);
		if (figures.lasting)
			figures.lasting += due_ns - now_ns;
		now_ns = due_ns;
		d->waits.timer.due(&d->waits.timer);
	}
}

static void does(enum doing doing, uint64_t lasting_ns)
{
	figures.doing = doing;
	figures.lasting = lasting_ns;
}

TEST(a_long_wait_is_told_once_and_so_is_its_end)
{
	begin();
	does(DOING_ROOM, 1);
	waits_look(&tenant->device[0]);
	look(5);
	expect_str(said, "");
	look(20);
	expect_str(said, "memory");
	does(DOING_RUNNING, 0);
	look(1);
	expect_str(said, "memory no-memory");
	expect(list_empty(&d->waits.all));
	end();
}

TEST(a_wait_that_ends_with_a_refusal_is_told_so)
{
	begin();
	figures.refusals = 3; /* from before */
	does(DOING_ROOM, 40 * second_ns);
	waits_look(&tenant->device[0]);
	look(1);
	figures.refusals++;
	does(DOING_RUNNING, 0);
	look(1);
	expect_str(said, "memory no-memory-refused");
	/* The next wait has none. */
	does(DOING_ROOM, 40 * second_ns);
	waits_look(&tenant->device[0]);
	look(1);
	does(DOING_RUNNING, 0);
	look(1);
	expect_str(said, "memory no-memory-refused memory no-memory");
	end();
}

/* It has turns in which it waits, computes, and asks for memory. */
TEST(a_stuck_tenant_is_so_until_its_memory_moves)
{
	static const enum doing all[] = {DOING_TURN, DOING_KERNEL, DOING_ROOM, DOING_CAPPED};

	begin();
	figures.stuck = 1;
	waits_look(&tenant->device[0]);
	look(1);
	expect_str(said, "stuck");
	for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
		does(all[i], 1);
		look(2);
		expect_str(said, "stuck");
	}
	figures.stuck = 0;
	look(1);
	expect_str(said, "stuck no-stuck");
	end();
}

TEST(work_for_which_its_tenant_was_halted_hangs_until_it_ends)
{
	begin();
	figures.gate = WIRE_GATE_CLOSING;
	does(DOING_HANGS, 40 * second_ns);
	waits_look(&tenant->device[0]);
	look(1);
	does(DOING_HALTED, 0);
	look(2);
	expect_str(said, "hangs");
	figures.gate = WIRE_GATE_CLOSED;
	look(1);
	expect_str(said, "hangs no-hangs");
	end();
}

/* The row says of its work, not of its request, while that outlasts its turn. */
TEST(a_tenant_that_computes_beside_its_request_still_waits)
{
	begin();
	figures.waiting = 1;
	does(DOING_ROOM, 40 * second_ns);
	waits_look(&tenant->device[0]);
	look(1);
	does(DOING_KERNEL, second_ns);
	look(1);
	does(DOING_ROOM, 60 * second_ns);
	look(1);
	expect_str(said, "memory");
	figures.waiting = 0;
	does(DOING_KERNEL, second_ns);
	look(1);
	expect_str(said, "memory no-memory");
	end();
}

TEST(a_wait_of_a_process_that_ends_is_over_when_it_has_ended)
{
	struct guest guest = {.caller = NULL};

	begin();
	list_append(&tenant->guests, &guest.link);
	figures.guests = 1;
	does(DOING_MEMORY, 30 * second_ns);
	waits_look(&tenant->device[0]);
	look(1);
	expect_str(said, "memory");

	/* Its socket is closed, and the process is there for a moment longer. */
	does(DOING_RUNNING, 0);
	look(2);
	expect_str(said, "memory");

	list_remove(&guest.link);
	figures.guests = 0;
	does(DOING_ABSENT, 0);
	look(1);
	expect_str(said, "memory no-memory");
	expect_str(happened, "waits waited");
	expect_eq(doing_told, DOING_ABSENT);
	end();
}

static void restart(uint32_t kind)
{
	const struct waits_past past = {
		.kind = kind, .since_ns = 900 * second_ns, .last_ns = 940 * second_ns};

	waits_close(d);
	figures.waiting = 0;
	does(DOING_ABSENT, 0);
	tenant->expected_count = 1;
	tenant->device[0].wait = (struct long_wait){.kind = HOST_WAITS_NOT};
	waits_were_told(&tenant->device[0], &past);
	expect_eq(waits_open(d), 0);
	waits_tell(d, told, NULL);
}

TEST(a_wait_that_an_earlier_meted_told_of_is_over_when_its_guests_have_said_so)
{
	begin();
	restart(HOST_WAITS_MEMORY);
	look(3);
	waits_look(&tenant->device[0]);
	look(1);
	expect_str(said, "");
	tenant->expected_count = 0;
	does(DOING_IDLE, 0);
	look(1); /* what it waits for it says later */
	does(DOING_ROOM, 1);
	look(10);
	expect_str(said, "");
	does(DOING_RUNNING, 0);
	refuses = true;
	look(2);
	expect_str(said, "");
	refuses = false;
	look(1);
	expect_str(said, "no-memory");
	expect(list_empty(&d->waits.all));
	end();
}

TEST(work_that_an_earlier_meted_called_hanging_still_hangs_while_its_gate_closes)
{
	begin();
	restart(HOST_HANGS);
	tenant->expected_count = 0;
	figures.gate = WIRE_GATE_CLOSING;
	does(DOING_KERNEL, 2 * second_ns);
	look(4);
	expect_str(said, "");
	figures.gate = WIRE_GATE_CLOSED;
	does(DOING_TURN, second_ns);
	look(1);
	expect_str(said, "no-hangs");
	end();
}

/* A new meted trusts everybody at first. */
TEST(a_tenant_that_was_stuck_before_a_restart_is_so_until_a_byte_of_it_moves)
{
	begin();
	restart(HOST_STUCK);
	tenant->expected_count = 0;
	figures.movable = 1 << 30;
	does(DOING_IDLE, 0);
	look(4);
	expect_str(said, "");
	figures.stuck = true;
	look(1);
	figures.stuck = false;
	look(1);
	expect_str(said, "");
	figures.moved_out = 1 << 20;
	look(1);
	expect_str(said, "no-stuck");
	end();
}

TEST(the_time_at_which_a_pod_was_told_of_a_wait_is_known_to_the_next_meted)
{
	begin();
	restart(HOST_WAITS_MEMORY);
	tenant->expected_count = 0;
	does(DOING_RUNNING, 0);
	look(3);
	expect_str(said, "no-memory");
	expect_eq(last.before_ns, 900 * second_ns);
	does(DOING_ROOM, 1);
	waits_look(&tenant->device[0]);
	look(10);
	expect_str(said, "no-memory memory");
	expect_eq(last.before_ns, 0);
	expect_eq(last.last_ns, 940 * second_ns);
	/* The wait is over, and the next meted again knows of it. */
	does(DOING_RUNNING, 0);
	look(2);
	restart(HOST_WAITS_NOT);
	tenant->expected_count = 0;
	expect(list_empty(&d->waits.all));
	does(DOING_ROOM, 1);
	waits_look(&tenant->device[0]);
	look(10);
	expect_eq(last.last_ns, 940 * second_ns);
	end();
}

TEST(a_tenant_of_no_pod_has_events_and_nobody_is_told)
{
	begin();
	tenant->pods = false;
	does(DOING_ROOM, 40 * second_ns);
	waits_look(&tenant->device[0]);
	look(3);
	expect_str(happened, "waits");
	does(DOING_RUNNING, 0);
	look(1);
	expect_str(happened, "waits waited");
	expect_str(said, "");
	end();
}

TEST(an_event_says_how_a_wait_has_ended)
{
	static const struct {
		enum doing doing;
		uint64_t refused;
		const char *sentence;
	} ends[] = {
		{DOING_RUNNING, 0, "it waited for memory for 45 s, and goes on"},
		{DOING_RUNNING, 1, "it waited for memory for 45 s, and was refused some of it"},
		{DOING_SUSPENDED, 0, "it waited for memory for 45 s, and is suspended now"},
		{DOING_HALTED, 0, "it waited for memory for 45 s, and is suspended now"},
		{DOING_ABSENT, 0, "it waited for memory for 45 s, and its processes have ended"},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(ends); i++) {
		begin();
		does(DOING_ROOM, 35 * second_ns);
		waits_look(&tenant->device[0]);
		look(1);
		figures.refusals = ends[i].refused;
		does(ends[i].doing, 0);
		look(1);
		expect_str(happened, "waits waited");
		expect_str(sentence, ends[i].sentence);
		end();
	}
}

/* In its turns it has been found to end late before that: a kernel of some seconds hangs not. */
TEST(events_report_hanging_work_as_ps_does_and_its_end)
{
	begin();
	figures.gate = WIRE_GATE_CLOSING;
	does(DOING_KERNEL, 2 * second_ns);
	waits_look(&tenant->device[0]);
	look(5);
	expect_str(happened, "");
	does(DOING_HANGS, 30 * second_ns);
	look(1);
	expect_str(sentence, "its work on the device has not ended for 35 s");
	figures.gate = WIRE_GATE_OPEN;
	does(DOING_RUNNING, 0);
	look(1);
	expect_str(happened, "hangs recovered");
	expect_str(sentence, "it hung for 40 s");
	end();
}

TEST(a_pod_that_could_not_be_told_is_told_later_and_the_event_is_there_once)
{
	begin();
	refuses = true;
	does(DOING_ROOM, 40 * second_ns);
	waits_look(&tenant->device[0]);
	look(3);
	refuses = false;
	look(3);
	expect_str(said, "memory");
	expect_str(happened, "waits");
	end();
}
