/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/engine_core.h"

#include <string.h>

#include "sim/machine/engine_book.h"

#define NOBODY UINT32_MAX

static bool is_link(unsigned lane)
{
	return lane == SEGMENT_HOST_TO_DEVICE || lane == SEGMENT_DEVICE_TO_HOST;
}

static bool waits(const struct segment_ticket *ticket, unsigned lane, uint64_t now_ns)
{
	return ticket->id && ticket->lane == lane && !ticket->done && ticket->ready_ns <= now_ns;
}

/* ---- turns --------------------------------------------------------------------------------- */

/* The holder of slices: a context of a process, or all clients of an MPS daemon, whose kernels are
 * one context's to the device. Contexts of one process are neighbours in the round. */
static uint64_t owner(const struct segment_ticket *ticket)
{
	if (ticket->mps)
		return (uint64_t)UINT32_MAX << 32 | ticket->mps;
	return (uint64_t)ticket->process << 32 | ticket->context;
}

/* How far behind the holder of the last slice an owner stands in the round; the holder is last. */
static uint64_t distance(uint64_t owner, uint64_t current)
{
	return owner - current - 1;
}

static void least(uint64_t *value, uint64_t other)
{
	if (other < *value)
		*value = other;
}

struct choice {
	uint32_t index;	     /* of the ticket that the lane works on, or NOBODY */
	bool others;	     /* another context waits for the lane */
	uint64_t arrival_ns; /* when the next ticket gets ready; UINT64_MAX for none */
};

/* Whether ticket `i` comes before `other` (NOBODY: any does) once the current slice has ended. */
static bool is_nearer(const struct segment_engines *engines, uint64_t current, uint32_t i,
		      uint32_t other)
{
	const struct segment_ticket *tickets = engines->tickets;
	uint64_t far, nearest;

	if (other == NOBODY)
		return true;
	far = distance(owner(&tickets[i]), current);
	nearest = distance(owner(&tickets[other]), current);
	return far < nearest || (far == nearest && tickets[i].id < tickets[other].id);
}

/* When the ticket becomes ready; UINT64_MAX: never. */
static uint64_t arrival(const struct segment_ticket *ticket, unsigned lane)
{
	return ticket->id && ticket->lane == lane && !ticket->done ? ticket->ready_ns : UINT64_MAX;
}

/* The oldest ticket of the context that has the slice, and the oldest of the next context; NOBODY:
 * there is none. Fills in the choice except its index. */
static void survey(const struct segment_engines *engines, unsigned lane, struct choice *choice,
		   uint32_t *ret_own, uint32_t *ret_next)
{
	uint64_t current = engines->lanes[lane].current;

	*ret_own = *ret_next = NOBODY;
	for (uint32_t i = 0; i < engines->tickets_high; i++) {
		const struct segment_ticket *ticket = &engines->tickets[i];

		if (!waits(ticket, lane, engines->at_ns)) {
			least(&choice->arrival_ns, arrival(ticket, lane));
		} else if (owner(ticket) == current) {
			if (*ret_own == NOBODY || ticket->id < engines->tickets[*ret_own].id)
				*ret_own = i;
		} else {
			choice->others = true;
			if (is_nearer(engines, current, i, *ret_next))
				*ret_next = i;
		}
	}
}

/* Whether another context than the ticket's waits. */
static bool others_wait(const struct segment_engines *engines, unsigned lane, uint32_t ticket)
{
	for (uint32_t i = 0; i < engines->tickets_high; i++)
		if (waits(&engines->tickets[i], lane, engines->at_ns) &&
		    owner(&engines->tickets[i]) != owner(&engines->tickets[ticket]))
			return true;
	return false;
}

/* The oldest ticket of the context that has the slice; at the slice's end, of the next context. */
static struct choice choose(struct segment_engines *engines, const struct engine_core_rules *rules,
			    unsigned lane)
{
	struct segment_lane_book *book = &engines->lanes[lane];
	struct choice choice = {.index = NOBODY, .arrival_ns = UINT64_MAX};
	uint32_t own, next;

	survey(engines, lane, &choice, &own, &next);
	if (own != NOBODY && (!choice.others || engines->at_ns < book->slice_end_ns)) {
		choice.index = own;
		return choice;
	}
	if (next == NOBODY)
		return choice;
	/* Does another context wait once this one has the slice? */
	choice.others = own != NOBODY || others_wait(engines, lane, next);
	book->current = owner(&engines->tickets[next]);
	book->slice_end_ns = engines->at_ns + rules->slice_ns;
	choice.index = next;
	return choice;
}

/* ---- clients of MPS ------------------------------------------------------------------------ */

/* Does the lane work on this ticket, too, beside the chosen one? It does on the oldest one of each
 * process. */
static bool is_beside(const struct segment_engines *engines, unsigned lane, uint32_t chosen,
		      uint32_t i)
{
	const struct segment_ticket *tickets = engines->tickets, *ticket = &tickets[i];

	if (i == chosen)
		return true;
	if (!tickets[chosen].mps || !waits(ticket, lane, engines->at_ns) ||
	    ticket->mps != tickets[chosen].mps || ticket->process == tickets[chosen].process)
		return false;
	for (uint32_t k = 0; k < engines->tickets_high; k++)
		if (waits(&tickets[k], lane, engines->at_ns) &&
		    tickets[k].process == ticket->process && tickets[k].id < ticket->id)
			return false;
	return true;
}

/* The sum of the parts of the lane's tickets, in thousandths; at least 1000. */
static uint64_t wanted_milli(const struct segment_engines *engines, unsigned lane, uint32_t chosen)
{
	uint64_t sum = 0;

	if (!engines->tickets[chosen].mps)
		return ENGINE_BOOK_MILLI;
	for (uint32_t i = 0; i < engines->tickets_high; i++)
		if (is_beside(engines, lane, chosen, i))
			sum += engines->tickets[i].mps_milli;
	return sum > ENGINE_BOOK_MILLI ? sum : ENGINE_BOOK_MILLI;
}

/* ---- steps --------------------------------------------------------------------------------- */

static void work_on(struct segment_engines *engines, const struct engine_core_rules *rules,
		    unsigned lane, struct segment_ticket *ticket, uint64_t speed, uint64_t step_ns)
{
	uint64_t end_ns = engines->at_ns + step_ns, part_ns = engine_book_done_in(step_ns, speed);

	if (ticket->left_ns != UINT64_MAX) {
		/* The last step is rounded up to whole nanoseconds. */
		if (engine_book_time_for(ticket->left_ns, speed) <= step_ns)
			part_ns = ticket->left_ns;
		ticket->left_ns -= part_ns < ticket->left_ns ? part_ns : ticket->left_ns;
	}
	/* A client of MPS is charged for its part of the device. */
	engine_book_charge_process(
		rules, lane, ticket->process, engines->at_ns,
		ticket->mps ? engines->at_ns + engine_book_done_in(step_ns, speed) : end_ns);
	if (!ticket->left_ns) {
		ticket->end_ns = end_ns;
		ticket->done = 1;
		engine_book_count_kernel(rules, lane, ticket->process, 1);
	}
}

static void work(struct segment_engines *engines, const struct engine_core_rules *rules,
		 unsigned lane, struct choice choice, uint64_t speed, uint64_t step_ns)
{
	struct segment_lane_book *book = &engines->lanes[lane];
	uint64_t end_ns = engines->at_ns + step_ns,
		 wanted = wanted_milli(engines, lane, choice.index);
	bool beside[SEGMENT_TICKETS_MAX];

	for (uint32_t i = 0; i < engines->tickets_high; i++)
		beside[i] = is_beside(engines, lane, choice.index, i);
	for (uint32_t i = 0; i < engines->tickets_high; i++)
		if (beside[i])
			work_on(engines, rules, lane, &engines->tickets[i],
				engine_book_speed_of(&engines->tickets[i], speed, wanted), step_ns);
	engine_book_charge_device(engines, rules, lane, engines->at_ns, end_ns);
	/* A context that is alone gets slice after slice: a new one waits for the end of the
	 * running slice. */
	if (!choice.others && end_ns > book->slice_end_ns)
		book->slice_end_ns += (end_ns - book->slice_end_ns + rules->slice_ns - 1) /
				      rules->slice_ns * rules->slice_ns;
}

static bool is_busy(const struct choice *choices, unsigned lane)
{
	return choices[lane].index != NOBODY;
}

/* The time until a lane's ticket is done, its slice ends while others wait, or a ticket arrives. */
static uint64_t lane_step(const struct segment_engines *engines, unsigned lane,
			  const struct choice *choice, uint64_t speed)
{
	uint64_t step_ns = UINT64_MAX, wanted;

	if (choice->arrival_ns != UINT64_MAX)
		step_ns = choice->arrival_ns - engines->at_ns;
	if (choice->index == NOBODY)
		return step_ns;
	if (choice->others)
		least(&step_ns, engines->lanes[lane].slice_end_ns - engines->at_ns);
	wanted = wanted_milli(engines, lane, choice->index);
	for (uint32_t i = 0; i < engines->tickets_high; i++) {
		const struct segment_ticket *ticket = &engines->tickets[i];

		if (ticket->left_ns != UINT64_MAX && is_beside(engines, lane, choice->index, i))
			least(&step_ns,
			      engine_book_time_for(ticket->left_ns,
						   engine_book_speed_of(ticket, speed, wanted)));
	}
	return step_ns;
}

/* One step: until a ticket is done, a slice ends while others wait, or a ticket arrives. */
static void step(struct segment_engines *engines, const struct engine_core_rules *rules,
		 unsigned lanes, uint64_t now_ns)
{
	struct choice choices[SEGMENT_LANES];
	uint64_t speeds[SEGMENT_LANES], step_ns = now_ns - engines->at_ns;
	bool up, down;

	for (unsigned lane = 0; lane < SEGMENT_LANES; lane++)
		if (lanes >> lane & 1)
			choices[lane] = choose(engines, rules, lane);
		else
			choices[lane] = (struct choice){.index = NOBODY, .arrival_ns = UINT64_MAX};
	up = is_busy(choices, SEGMENT_HOST_TO_DEVICE);
	down = is_busy(choices, SEGMENT_DEVICE_TO_HOST);
	for (unsigned lane = 0; lane < SEGMENT_LANES; lane++) {
		speeds[lane] = is_link(lane) && up && down ? rules->duplex : SETTINGS_FACTOR_ONE;
		least(&step_ns, lane_step(engines, lane, &choices[lane], speeds[lane]));
	}
	for (unsigned lane = 0; lane < SEGMENT_LANES; lane++) {
		if (!(lanes >> lane & 1))
			continue;
		if (is_busy(choices, lane))
			work(engines, rules, lane, choices[lane], speeds[lane], step_ns);
		else if (rules->processes)
			engine_book_gap_extend(&engines->lanes[lane], engines->at_ns,
					       engines->at_ns + step_ns,
					       is_link(lane) && (up || down) ? rules->duplex
									     : SETTINGS_FACTOR_ONE);
	}
	engines->at_ns += step_ns;
}

void engine_core_advance(struct segment_engines *engines, const struct engine_core_rules *rules,
			 unsigned lanes, uint64_t now_ns, uint32_t until)
{
	while (engines->at_ns < now_ns) {
		if (until != NOBODY && engines->tickets[until].done)
			return;
		step(engines, rules, lanes, now_ns);
	}
}

/* ---- tickets ------------------------------------------------------------------------------- */

uint32_t engine_core_add(struct segment_engines *engines, const struct engine_core_rules *rules,
			 enum segment_lane lane, uint32_t process, uint32_t context,
			 uint64_t ready_ns, uint64_t work_ns)
{
	struct segment_ticket ticket = {
		.process = process, .context = context, .lane = (uint8_t)lane};
	const struct segment_process *who = rules->processes ? &rules->processes[process] : NULL;
	uint32_t index = 0;

	while (index < SEGMENT_TICKETS_MAX && engines->tickets[index].id)
		index++;
	if (index == SEGMENT_TICKETS_MAX)
		return NOBODY;
	/* Copies are not divided. */
	if (who && lane == SEGMENT_COMPUTE) {
		ticket.mps = who->mps;
		ticket.mps_milli = who->mps_milli;
	}
	ticket.end_ns = ready_ns;
	ticket.ready_ns = ready_ns;
	ticket.left_ns = work_ns;
	if (work_ns != UINT64_MAX)
		ticket.left_ns = engine_book_gap_claim(engines, rules, &ticket, ready_ns, work_ns,
						       &ticket.end_ns);
	ticket.done = !ticket.left_ns;
	if (ticket.done)
		engine_book_count_kernel(rules, lane, process, 1);
	engines->tickets[index] = ticket;
	if (index >= engines->tickets_high)
		engines->tickets_high = index + 1;
	/* The ticket counts from here on. */
	engines->tickets[index].id = engines->next_ticket++;
	return index;
}

bool engine_core_correct(struct segment_engines *engines, const struct engine_core_rules *rules,
			 uint32_t index, uint64_t old_ns, uint64_t new_ns)
{
	struct segment_ticket *ticket = &engines->tickets[index];
	uint64_t more_ns;

	if (new_ns == old_ns)
		return false;
	if (new_ns < old_ns) {
		/* Time that it got in excess is lost, also for the others. */
		if (ticket->done)
			return false;
		if (ticket->left_ns > old_ns - new_ns) {
			ticket->left_ns -= old_ns - new_ns;
		} else {
			ticket->left_ns = 0;
			ticket->end_ns = engines->at_ns;
			ticket->done = 1;
			engine_book_count_kernel(rules, ticket->lane, ticket->process, 1);
		}
		return true;
	}
	if (ticket->done)
		engine_book_count_kernel(rules, ticket->lane, ticket->process, -1);
	if (new_ns == UINT64_MAX) {
		ticket->left_ns = new_ns;
		ticket->done = 0;
		return false;
	}
	more_ns = new_ns - old_ns;
	if (ticket->done) {
		more_ns = engine_book_gap_claim(engines, rules, ticket, ticket->end_ns, more_ns,
						&ticket->end_ns);
		ticket->done = !more_ns;
		ticket->left_ns = more_ns;
		if (ticket->done)
			engine_book_count_kernel(rules, ticket->lane, ticket->process, 1);
	} else {
		ticket->left_ns += more_ns;
	}
	return false;
}

void engine_core_remove(struct segment_engines *engines, uint32_t index)
{
	engines->tickets[index].id = 0;
	while (engines->tickets_high && !engines->tickets[engines->tickets_high - 1].id)
		engines->tickets_high--;
}

uint32_t engine_core_find(const struct segment_engines *engines, uint64_t id)
{
	for (uint32_t i = 0; i < engines->tickets_high; i++)
		if (engines->tickets[i].id == id)
			return i;
	return NOBODY;
}

bool engine_core_contended(const struct segment_engines *engines, enum segment_lane lane,
			   uint32_t process)
{
	for (uint32_t i = 0; i < engines->tickets_high; i++) {
		const struct segment_ticket *ticket = &engines->tickets[i];

		if (ticket->id && ticket->lane == lane && !ticket->done &&
		    ticket->process != process)
			return true;
	}
	return false;
}

uint64_t engine_core_predict(const struct segment_engines *engines,
			     const struct engine_core_rules *rules, uint32_t index,
			     uint64_t horizon_ns)
{
	struct engine_core_rules what_if = *rules;
	unsigned lane = engines->tickets[index].lane;
	struct segment_engines copy;

	what_if.processes = NULL;
	memcpy(&copy, engines,
	       offsetof(struct segment_engines, tickets) +
		       engines->tickets_high * sizeof(engines->tickets[0]));
	engine_core_advance(&copy, &what_if,
			    is_link(lane)
				    ? 1u << SEGMENT_HOST_TO_DEVICE | 1u << SEGMENT_DEVICE_TO_HOST
				    : 1u << lane,
			    horizon_ns, index);
	return copy.tickets[index].done ? copy.tickets[index].end_ns : horizon_ns;
}
