/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/engine.h"

#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/engine_core.h"

enum {
	/* How far ahead a process plans that shares an engine: others may have died by then. */
	ENGINE_CHECK_NS = 20000000,
};

static struct segment_device *book_of(int device)
{
	return &segment_get()->devices[device_place(device)];
}

static struct engine_core_rules rules_of(int device)
{
	const struct settings *settings = segment_settings();

	return (struct engine_core_rules){.slice_ns = settings->slice_ns,
					  .duplex = settings->duplex,
					  .device = device_place(device),
					  .processes = segment_get()->processes};
}

/* Advances the engines to now; the device is locked. */
static uint64_t catch_up(struct segment_device *book, const struct engine_core_rules *rules)
{
	uint64_t now_ns = clock_now_ns();

	engine_core_advance(&book->engines, rules, ENGINE_CORE_ALL, now_ns, UINT32_MAX);
	return now_ns;
}

/* Bucket 0 is below 2^10 ns; then four to the octave; the last takes the rest. */
static size_t bucket_of(uint64_t late_ns)
{
	unsigned octave, bucket;

	if (late_ns < 1024)
		return 0;
	octave = 63 - (unsigned)__builtin_clzll(late_ns);
	bucket = 1 + (octave - 10) * 4 + (unsigned)(late_ns >> (octave - 2) & 3);
	return bucket < SEGMENT_LATENESS_BUCKETS ? bucket : SEGMENT_LATENESS_BUCKETS - 1;
}

/* The bucket's upper bound. */
static uint64_t bucket_bound(size_t bucket)
{
	if (bucket == 0)
		return 1024;
	return (5 + (bucket - 1) % 4) << ((bucket - 1) / 4 + 8);
}

static void record(struct segment_lateness *lateness, uint64_t late_ns)
{
	atomic_fetch_add_explicit(&lateness->counts[bucket_of(late_ns)], 1, memory_order_relaxed);
}

uint64_t engine_lateness_ns(const struct segment_lateness *lateness, unsigned percentile)
{
	uint64_t counts[SEGMENT_LATENESS_BUCKETS], total = 0, seen = 0;

	for (size_t i = 0; i < SEGMENT_LATENESS_BUCKETS; i++) {
		counts[i] = atomic_load_explicit(&lateness->counts[i], memory_order_relaxed);
		total += counts[i];
	}
	for (size_t i = 0; i < SEGMENT_LATENESS_BUCKETS; i++) {
		seen += counts[i];
		if (seen && seen * 100 >= total * percentile)
			return bucket_bound(i);
	}
	return 0;
}

static void take_off(struct segment_device *book, uint32_t index)
{
	engine_core_remove(&book->engines, index);
	if (book->engines.crowd) {
		book->engines.crowd = 0;
		clock_wake(&book->engines.room);
	}
}

static void record_missed(struct segment_lateness *lateness, uint64_t missed_ns)
{
	atomic_fetch_add_explicit(&lateness->missed_ns, missed_ns, memory_order_relaxed);
}

uint64_t engine_missed_ns(const struct segment_lateness *lateness)
{
	return atomic_load_explicit(&lateness->missed_ns, memory_order_relaxed);
}

/* Puts the work on the engine; waits for a free ticket with the lock given up. */
static uint32_t add(struct segment_device *book, const struct engine_core_rules *rules,
		    enum segment_lane lane, uint32_t context, uint64_t ready_ns, uint64_t work_ns)
{
	uint32_t self = segment_number(segment_self());
	uint32_t index, room;

	for (;;) {
		uint64_t now_ns = catch_up(book, rules);

		if (ready_ns > now_ns)
			ready_ns = now_ns;
		index = engine_core_add(&book->engines, rules, lane, self, context, ready_ns,
					work_ns);
		if (index != UINT32_MAX) {
			record_missed(&book->lateness, now_ns - ready_ns);
			record_missed(&segment_self()->lateness, now_ns - ready_ns);
			return index;
		}
		room = atomic_load(&book->engines.room);
		book->engines.crowd = 1;
		segment_unlock(book);
		/* Woken when a ticket is free; tickets of dead processes become free when a process
		 * checks for them. */
		if (clock_wait_until(now_ns + ENGINE_CHECK_NS, &book->engines.room, room) == 0)
			segment_reap();
		segment_lock(book);
	}
}

void engine_kernel_begin(int device, uint32_t context, uint64_t ready_ns, uint64_t expected_ns,
			 struct engine_ticket *ret_ticket)
{
	struct engine_core_rules rules;
	struct segment_device *book;
	uint32_t index;

	*ret_ticket = (struct engine_ticket){.device = device,
					     .context = context,
					     .ready_ns = ready_ns,
					     .expected_ns = expected_ns};
	if (!expected_ns || !segment_self())
		return;
	rules = rules_of(device);
	book = book_of(device);
	segment_lock(book);
	index = add(book, &rules, SEGMENT_COMPUTE, context, ready_ns, expected_ns);
	ret_ticket->id = book->engines.tickets[index].id;
	segment_unlock(book);
}

/* One wait for a ticket on the engine: until it may be done, or something has changed. The device
 * is locked, and unlocked meanwhile. */
static void wait_for(struct segment_device *book, const struct engine_core_rules *rules,
		     uint32_t index, uint64_t now_ns)
{
	struct segment_engines *engines = &book->engines;
	const struct segment_ticket *ticket = &engines->tickets[index];
	bool shared = engine_core_contended(engines, ticket->lane, ticket->process);
	bool for_ever = ticket->left_ns == UINT64_MAX;
	uint32_t epoch = atomic_load(&engines->epoch);
	uint64_t until_ns = UINT64_MAX;

	if (!for_ever)
		until_ns = engine_core_predict(engines, rules, index,
					       shared ? now_ns + ENGINE_CHECK_NS : UINT64_MAX);
	segment_unlock(book);
	if (clock_wait_until(until_ns, &engines->epoch, epoch) == 0 && shared &&
	    until_ns >= now_ns + ENGINE_CHECK_NS)
		segment_reap();
	segment_lock(book);
}

struct engine_wait {
	struct engine_core_rules rules;
	struct segment_device *book;
	enum segment_lane lane;
	uint32_t context;
	_Atomic uint32_t *cancel;
	uint64_t id, ready_ns, work_ns;
};

/* Waits for a ticket that is on the engine, and takes it off. The device is locked. */
static int finish(struct engine_wait *wait, uint64_t *ret_end_ns, uint64_t *ret_lateness_ns)
{
	struct segment_engines *engines = &wait->book->engines;
	uint64_t now_ns, end_ns, late_ns;
	uint32_t index;

	for (;;) {
		now_ns = catch_up(wait->book, &wait->rules);
		index = engine_core_find(engines, wait->id);
		if (index == UINT32_MAX) {
			/* The ticket is lost: this process was taken for dead, or its segment was
			 * mended. */
			index = add(wait->book, &wait->rules, wait->lane, wait->context,
				    wait->ready_ns, wait->work_ns);
			wait->id = engines->tickets[index].id;
			continue;
		}
		if (engines->tickets[index].done)
			break;
		if (wait->book->lost || (wait->cancel && atomic_load(wait->cancel))) {
			take_off(wait->book, index);
			clock_wake(&engines->epoch);
			return wait->book->lost ? ENGINE_LOST : ENGINE_CANCELLED;
		}
		wait_for(wait->book, &wait->rules, index, now_ns);
	}
	end_ns = engines->tickets[index].end_ns;
	take_off(wait->book, index);
	late_ns = now_ns > end_ns ? now_ns - end_ns : 0;
	record(&wait->book->lateness, late_ns);
	record(&segment_self()->lateness, late_ns);
	if (ret_end_ns)
		*ret_end_ns = end_ns;
	if (ret_lateness_ns)
		*ret_lateness_ns = late_ns;
	return 0;
}

int engine_kernel_end(struct engine_ticket *ticket, uint64_t modelled_ns, uint64_t *ret_end_ns,
		      uint64_t *ret_lateness_ns)
{
	struct engine_wait wait = {.lane = SEGMENT_COMPUTE,
				   .context = ticket->context,
				   .cancel = ticket->cancel,
				   .id = ticket->id,
				   .ready_ns = ticket->ready_ns,
				   .work_ns = modelled_ns};
	uint32_t index;
	int r;

	if (!segment_self())
		return -ENODEV;
	wait.rules = rules_of(ticket->device);
	wait.book = book_of(ticket->device);
	segment_lock(wait.book);
	catch_up(wait.book, &wait.rules);
	index = ticket->id ? engine_core_find(&wait.book->engines, ticket->id) : UINT32_MAX;
	if (index == UINT32_MAX) {
		index = add(wait.book, &wait.rules, SEGMENT_COMPUTE, ticket->context,
			    ticket->ready_ns, modelled_ns);
		wait.id = wait.book->engines.tickets[index].id;
	} else if (engine_core_correct(&wait.book->engines, &wait.rules, index, ticket->expected_ns,
				       modelled_ns)) {
		clock_wake(&wait.book->engines.epoch);
	}
	r = finish(&wait, ret_end_ns, ret_lateness_ns);
	segment_unlock(wait.book);
	ticket->id = 0;
	return r;
}

int engine_work(int device, enum segment_lane lane, uint64_t modelled_ns, uint64_t ready_ns,
		uint64_t *ret_end_ns)
{
	struct engine_wait wait = {.lane = lane, .ready_ns = ready_ns, .work_ns = modelled_ns};
	uint32_t index;
	int r;

	if (!segment_self())
		return -ENODEV;
	wait.rules = rules_of(device);
	wait.book = book_of(device);
	segment_lock(wait.book);
	index = add(wait.book, &wait.rules, lane, 0, ready_ns, modelled_ns);
	wait.id = wait.book->engines.tickets[index].id;
	r = finish(&wait, ret_end_ns, NULL);
	segment_unlock(wait.book);
	return r;
}

int engine_copy(int device, enum segment_lane lane, uint64_t bytes, uint64_t ready_ns,
		uint64_t *ret_end_ns)
{
	const struct settings_device *shape = device_shape(device);
	uint64_t rate = lane == SEGMENT_DEVICE_TO_DEVICE ? shape->device_rate / 2
			: lane == SEGMENT_PEER		 ? shape->peer_rate
							 : shape->link_rate;

	/* A copy within the device reads and writes at once. */
	return engine_work(device, lane,
			   (uint64_t)((unsigned __int128)bytes * 1000000000 / (rate ? rate : 1)),
			   ready_ns, ret_end_ns);
}

void engine_cancel(int device)
{
	clock_wake(&book_of(device)->engines.epoch);
}

uint64_t engine_busy_ns(int device, uint32_t process, enum segment_lane lane)
{
	struct engine_core_rules rules = rules_of(device);
	struct segment_device *book = book_of(device);
	uint64_t busy_ns;

	segment_lock(book);
	catch_up(book, &rules);
	busy_ns = rules.processes[process].usage[rules.device].busy_ns[lane];
	segment_unlock(book);
	return busy_ns;
}

uint64_t engine_device_busy_ns(int device, enum segment_lane lane)
{
	struct engine_core_rules rules = rules_of(device);
	struct segment_device *book = book_of(device);
	uint64_t busy_ns;

	segment_lock(book);
	catch_up(book, &rules);
	busy_ns = book->engines.lanes[lane].busy_ns;
	segment_unlock(book);
	return busy_ns;
}

size_t engine_samples(int device, uint32_t process, uint64_t since_ns, struct engine_sample *ret,
		      size_t most)
{
	struct engine_core_rules rules = rules_of(device);
	struct segment_device *book = book_of(device);
	const struct segment_sample *samples = book->engines.samples;
	uint64_t last, first;
	size_t count = 0;

	if (process != UINT32_MAX)
		samples = rules.processes[process].usage[rules.device].samples;
	segment_lock(book);
	last = catch_up(book, &rules) / ENGINE_CORE_PERIOD_NS;
	/* The ring's place for the current period may still hold the oldest one. */
	first = last > SEGMENT_SAMPLES_MAX - 1 ? last - (SEGMENT_SAMPLES_MAX - 1) : 0;
	if (last - first > most)
		first = last - most;
	for (uint64_t period = first; period < last; period++) {
		size_t i = period % SEGMENT_SAMPLES_MAX;
		uint64_t end_ns = (period + 1) * ENGINE_CORE_PERIOD_NS;
		uint64_t busy_ns = samples[i].period == period ? samples[i].busy_ns : 0;

		if (end_ns <= since_ns)
			continue;
		ret[count++] = (struct engine_sample){
			.end_ns = end_ns,
			.percent = (unsigned)((busy_ns * 100 + ENGINE_CORE_PERIOD_NS / 2) /
					      ENGINE_CORE_PERIOD_NS)};
	}
	segment_unlock(book);
	return count;
}

unsigned engine_utilisation(int device, uint32_t process)
{
	struct engine_sample sample;

	return engine_samples(device, process, 0, &sample, 1) ? sample.percent : 0;
}
