/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/engine_book.h"

#include <string.h>

/* ---- ledgers ------------------------------------------------------------------------------- */

/* Counts busy time into its sampling periods, except those that have left the ring. */
static void sample(struct segment_sample *samples, uint64_t start_ns, uint64_t end_ns)
{
	if (end_ns - start_ns > ENGINE_CORE_PERIOD_NS * (uint64_t)SEGMENT_SAMPLES_MAX)
		start_ns = end_ns - ENGINE_CORE_PERIOD_NS * (uint64_t)SEGMENT_SAMPLES_MAX;
	while (start_ns < end_ns) {
		uint64_t period = start_ns / ENGINE_CORE_PERIOD_NS;
		uint64_t stop_ns = (period + 1) * ENGINE_CORE_PERIOD_NS;
		size_t i = period % SEGMENT_SAMPLES_MAX;

		if (stop_ns > end_ns)
			stop_ns = end_ns;
		if (samples[i].period < period)
			samples[i] = (struct segment_sample){.period = (uint32_t)period};
		if (samples[i].period == period)
			samples[i].busy_ns += (uint32_t)(stop_ns - start_ns);
		start_ns = stop_ns;
	}
}

void engine_book_count_kernel(const struct engine_core_rules *rules, unsigned lane,
			      uint32_t process, int by)
{
	if (rules->processes && lane == SEGMENT_COMPUTE)
		rules->processes[process].usage[rules->device].kernels += (uint64_t)(int64_t)by;
}

void engine_book_charge_device(struct segment_engines *engines,
			       const struct engine_core_rules *rules, unsigned lane,
			       uint64_t start_ns, uint64_t end_ns)
{
	if (!rules->processes)
		return;
	engines->lanes[lane].busy_ns += end_ns - start_ns;
	if (lane == SEGMENT_COMPUTE)
		sample(engines->samples, start_ns, end_ns);
}

void engine_book_charge_process(const struct engine_core_rules *rules, unsigned lane,
				uint32_t process, uint64_t start_ns, uint64_t end_ns)
{
	struct segment_usage *usage;

	if (!rules->processes)
		return;
	usage = &rules->processes[process].usage[rules->device];
	usage->busy_ns[lane] += end_ns - start_ns;
	if (lane == SEGMENT_COMPUTE)
		sample(usage->samples, start_ns, end_ns);
}

static void engine_book_charge(struct segment_engines *engines,
			       const struct engine_core_rules *rules, unsigned lane,
			       uint32_t process, uint64_t start_ns, uint64_t end_ns)
{
	engine_book_charge_device(engines, rules, lane, start_ns, end_ns);
	engine_book_charge_process(rules, lane, process, start_ns, end_ns);
}

/* ---- gaps ---------------------------------------------------------------------------------- */

static void gap_insert(struct segment_lane_book *book, uint32_t at, struct segment_gap gap)
{
	if (gap.start_ns >= gap.end_ns)
		return;
	if (book->gap_count == SEGMENT_GAPS_MAX) {
		/* The oldest goes: no work comes so late. */
		memmove(&book->gaps[0], &book->gaps[1],
			(SEGMENT_GAPS_MAX - 1) * sizeof(book->gaps[0]));
		book->gap_count--;
		if (at == 0)
			return;
		at--;
	}
	memmove(&book->gaps[at + 1], &book->gaps[at],
		(book->gap_count - at) * sizeof(book->gaps[0]));
	book->gaps[at] = gap;
	book->gap_count++;
}

void engine_book_gap_extend(struct segment_lane_book *book, uint64_t start_ns, uint64_t end_ns,
			    uint64_t speed)
{
	struct segment_gap *last = book->gap_count ? &book->gaps[book->gap_count - 1] : NULL;

	if (last && last->end_ns == start_ns && last->speed == speed)
		last->end_ns = end_ns;
	else
		gap_insert(book, book->gap_count, (struct segment_gap){start_ns, end_ns, speed});
}

uint64_t engine_book_done_in(uint64_t time_ns, uint64_t speed)
{
	return (uint64_t)((unsigned __int128)time_ns * speed / SETTINGS_FACTOR_ONE);
}

uint64_t engine_book_time_for(uint64_t work_ns, uint64_t speed)
{
	unsigned __int128 time_ns =
		((unsigned __int128)work_ns * SETTINGS_FACTOR_ONE + speed - 1) / speed;

	return time_ns > UINT64_MAX ? UINT64_MAX : (uint64_t)time_ns;
}

/* A client has its part of the device, and less if the parts exceed the whole. */
uint64_t engine_book_speed_of(const struct segment_ticket *ticket, uint64_t speed, uint64_t wanted)
{
	uint64_t own = ticket->mps ? speed * ticket->mps_milli / wanted : speed;

	return own ? own : 1;
}

/* Work that came late uses time in which the engine was idle. Returns the remaining work. */
uint64_t engine_book_gap_claim(struct segment_engines *engines,
			       const struct engine_core_rules *rules,
			       const struct segment_ticket *ticket, uint64_t ready_ns,
			       uint64_t work_ns, uint64_t *ret_end_ns)
{
	struct segment_lane_book *book = &engines->lanes[ticket->lane];

	for (uint32_t i = 0; i < book->gap_count && work_ns;) {
		struct segment_gap gap = book->gaps[i];
		uint64_t start_ns = gap.start_ns > ready_ns ? gap.start_ns : ready_ns;
		uint64_t time_ns, part_ns, speed;

		if (gap.end_ns <= start_ns) {
			i++;
			continue;
		}
		speed = engine_book_speed_of(ticket, gap.speed, ENGINE_BOOK_MILLI);
		time_ns = engine_book_time_for(work_ns, speed);
		if (time_ns > gap.end_ns - start_ns)
			time_ns = gap.end_ns - start_ns;
		part_ns = engine_book_done_in(time_ns, speed);
		work_ns -= part_ns < work_ns ? part_ns : work_ns;
		engine_book_charge(engines, rules, ticket->lane, ticket->process, start_ns,
				   start_ns + time_ns);
		*ret_end_ns = start_ns + time_ns;
		/* What is left of the gap, before and behind. */
		book->gap_count--;
		memmove(&book->gaps[i], &book->gaps[i + 1],
			(book->gap_count - i) * sizeof(book->gaps[0]));
		if (gap.start_ns < start_ns)
			gap_insert(book, i++,
				   (struct segment_gap){gap.start_ns, start_ns, gap.speed});
		if (start_ns + time_ns < gap.end_ns)
			gap_insert(book, i++,
				   (struct segment_gap){start_ns + time_ns, gap.end_ns, gap.speed});
	}
	return work_ns;
}
