/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/flow.h"

#include <malloc.h>
#include <time.h>

#include "base/log.h"

static const uint64_t ms = 1000000;

enum {
	SLICE_MS = 2,	   /* of work, however long that takes on a busy machine */
	LATE_SLICE_MS = 1, /* for all flooding flows, ... */
	LATE_REST_MS = 9,  /* ... and then a pause of at least this */
	LAST_MOST = 64,	   /* requests of the last flow that are served in a round */
	TRIM_MS = 500,
	GRACE_US = 1000, /* a program's dozens of messages; beyond that a flow is late */
};

/* Our CPU time: nobody is charged for the time that a busy machine spends on others. */
static uint64_t spent_ns(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return (uint64_t)spent.tv_sec * 1000 * ms + (uint64_t)spent.tv_nsec;
}

/* Its requests are known: polling for them again and again would cost more than serving them. */
static void hush(struct flow *flow, bool hushed)
{
	list_for_each(link, &flow->items)
	{
		struct flow_item *item = list_entry(link, struct flow_item, link);

		item->hush(item, hushed);
	}
}

/* While any flow is late, the late flows are served at intervals. */
static void serve_late_soon(struct flows *flows)
{
	if (loop_is_armed(&flows->late_timer) || !flows->service.late.count)
		return;
	loop_arm(&flows->late_timer, LATE_REST_MS * ms);
}

/* Serves one request of the flow. *spent: the time spent so far, before and after. */
static void work_once(struct flow *flow, uint64_t *spent)
{
	struct list *link = flow->items.next;
	struct flow_item *item = list_entry(link, struct flow_item, link);
	uint64_t before = *spent;
	bool more;

	list_remove(link);
	more = item->work(item);
	if (more && !list_linked(link))
		list_append(&flow->items, link);
	else if (!more && flow->member.late)
		item->hush(item, false);
	*spent = spent_ns();
	if (service_done(&flow->flows->service, &flow->member, *spent - before,
			 !list_empty(&flow->items)) == SERVICE_BECAME_LATE) {
		hush(flow, true);
		serve_late_soon(flow->flows);
	}
}

static void serve(struct service *service, bool late, uint64_t slice_ns)
{
	uint64_t spent = spent_ns(), until = spent + slice_ns;
	struct service_member *next;

	while (spent < until && (next = service_next(service, late)) != NULL) {
		struct flow *flow = container_of(next, struct flow, member);

		if (!list_empty(&flow->items))
			work_once(flow, &spent);
		else
			service_done(service, next, 0, false);
	}
}

static void work_last(struct flow *flow)
{
	for (int i = 0; i < LAST_MOST && !list_empty(&flow->items); i++) {
		struct list *link = flow->items.next;
		struct flow_item *item = list_entry(link, struct flow_item, link);

		list_remove(link);
		if (item->work(item) && !list_linked(link))
			list_append(&flow->items, link);
	}
}

/* The rest is found again in the loop's next round: its descriptors are still ready. */
static void on_round(struct loop_after *after)
{
	struct flows *flows = container_of(after, struct flows, after);

	if (flows->service.prompt.count)
		serve(&flows->service, false, SLICE_MS * ms);
	if (flows->last)
		work_last(flows->last);
}

static void on_late(struct loop_timer *timer)
{
	struct flows *flows = container_of(timer, struct flows, late_timer);

	serve(&flows->service, true, LATE_SLICE_MS * ms);
	/* The rest begins now, not when the first of them became late. */
	loop_disarm(&flows->late_timer);
	serve_late_soon(flows);
}

static void on_trim(struct loop_timer *timer)
{
	(void)timer;
	malloc_trim(0);
	log_settle(); /* those that left may have caused many suppressed messages */
}

static void wake_at(struct flows *flows, uint64_t at_ns)
{
	uint64_t now = loop_now_ns();

	if (flows->pause_at_ns && flows->pause_at_ns <= at_ns)
		return;
	flows->pause_at_ns = at_ns;
	loop_arm(&flows->pause_timer, at_ns > now ? at_ns - now : 0);
}

void flow_pause(struct flows *flows, struct flow_pause *pause, uint64_t delay_ns)
{
	pause->until_ns = loop_now_ns() + delay_ns;
	if (!list_linked(&pause->link))
		list_append(&flows->pauses, &pause->link);
	wake_at(flows, pause->until_ns);
}

void flow_go_on(struct flow_pause *pause)
{
	list_remove(&pause->link);
}

/* The first that is over; NULL: none is, and *ret_next is when the next one will be. */
static struct flow_pause *first_over(struct flows *flows, uint64_t now_ns, uint64_t *ret_next)
{
	*ret_next = UINT64_MAX;
	list_for_each(link, &flows->pauses)
	{
		struct flow_pause *pause = list_entry(link, struct flow_pause, link);

		if (pause->until_ns <= now_ns)
			return pause;
		if (pause->until_ns < *ret_next)
			*ret_next = pause->until_ns;
	}
	return NULL;
}

static void on_pauses(struct loop_timer *timer)
{
	struct flows *flows = container_of(timer, struct flows, pause_timer);
	uint64_t now = loop_now_ns(), next;
	struct flow_pause *pause;

	flows->pause_at_ns = 0;
	/* Each may end others. */
	while ((pause = first_over(flows, now, &next))) {
		flow_go_on(pause);
		pause->over(pause);
	}
	if (next != UINT64_MAX)
		wake_at(flows, next);
}

void flows_gave_back(struct flows *flows)
{
	if (!loop_is_armed(&flows->trim))
		loop_arm(&flows->trim, TRIM_MS * ms);
}

int flows_open(struct flows *flows, struct loop *loop, uint32_t most)
{
	int r = discarder_open(&flows->discarder);

	if (r < 0)
		return r;
	list_init(&flows->debtors);
	list_init(&flows->pauses);
	/* Not cleared, so that unused places take no memory. */
	flows->service = (struct service){
		.prompt = {.heap = reallocarray(NULL, most, sizeof(struct line_member *)),
			   .room = most,
			   .grace = GRACE_US * ms / 1000},
		.late = {.heap = reallocarray(NULL, most, sizeof(struct line_member *)),
			 .room = most},
	};
	if (!flows->service.prompt.heap || !flows->service.late.heap)
		return -ENOMEM;
	r = loop_timer_init(loop, &flows->trim, on_trim);
	if (r == 0)
		r = loop_timer_init(loop, &flows->late_timer, on_late);
	if (r == 0)
		r = loop_timer_init(loop, &flows->pause_timer, on_pauses);
	return r < 0 ? r : loop_after(loop, &flows->after, on_round);
}

void flows_close(struct flows *flows)
{
	loop_after_close(&flows->after);
	loop_timer_close(&flows->trim, NULL);
	loop_timer_close(&flows->late_timer, NULL);
	loop_timer_close(&flows->pause_timer, NULL);
	free(take(flows->service.prompt.heap));
	free(take(flows->service.late.heap));
	flows->service = (struct service){0};
}

void flow_init(struct flow *flow, struct flows *flows)
{
	*flow = (struct flow){.flows = flows, .tokens = FLOW_BURST, .filled_ns = loop_now_ns()};
	list_init(&flow->items);
	list_init(&flow->debtors);
}

void flow_init_last(struct flow *flow, struct flows *flows)
{
	flow_init(flow, flows);
	flow->last = flow->long_lists = true;
	flows->last = flow;
}

void flow_done(struct flow *flow)
{
	list_for_each(link, &flow->items) list_remove(link);
	service_leave(&flow->flows->service, &flow->member);
}

void flow_want(struct flow_item *item)
{
	if (!list_linked(&item->link))
		list_append(&item->flow->items, &item->link);
	if (item->flow->member.late)
		item->hush(item, true);
	if (item->flow->last)
		return;
	service_want(&item->flow->flows->service, &item->flow->member);
	serve_late_soon(item->flow->flows);
}

void flow_forget(struct flow_item *item)
{
	list_remove(&item->link);
}

bool flow_pay(struct flow *flow, uint64_t price)
{
	static const uint64_t each_ns = 1000 * ms / FLOW_RATE;
	uint64_t earned = (loop_now_ns() - flow->filled_ns) / each_ns;

	if (flow->last)
		return true;
	flow->filled_ns += earned * each_ns;
	flow->tokens = flow->tokens + earned < FLOW_BURST ? flow->tokens + earned : FLOW_BURST;
	if (flow->tokens < price)
		return false;
	flow->tokens -= price;
	return true;
}
