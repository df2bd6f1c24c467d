/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of what engines have done, for engine_core.c alone: how long they worked for each
 * process, and the gaps in which they had nothing to do. Work that comes late may claim a gap.
 */
#pragma once

#include "sim/machine/engine_core.h"

enum { ENGINE_BOOK_MILLI = 1000 };

/* The work that a lane does in that time, and the time for that work; speeds in
 * SETTINGS_FACTOR_ONE. */
uint64_t engine_book_done_in(uint64_t time_ns, uint64_t speed);
uint64_t engine_book_time_for(uint64_t work_ns, uint64_t speed);

/* A ticket's part of a lane's speed: a client of MPS has its part of the device, and less if the
 * parts exceed the whole (`wanted`, their sum in thousandths, at least 1000). Never 0. */
uint64_t engine_book_speed_of(const struct segment_ticket *ticket, uint64_t speed, uint64_t wanted);

/* Adds to the kernels that the process has completed. */
void engine_book_count_kernel(const struct engine_core_rules *rules, unsigned lane,
			      uint32_t process, int by);

/* The lane has worked; and: it has worked for that process. */
void engine_book_charge_device(struct segment_engines *engines,
			       const struct engine_core_rules *rules, unsigned lane,
			       uint64_t start_ns, uint64_t end_ns);
void engine_book_charge_process(const struct engine_core_rules *rules, unsigned lane,
				uint32_t process, uint64_t start_ns, uint64_t end_ns);

/* The lane had nothing to do. */
void engine_book_gap_extend(struct segment_lane_book *book, uint64_t start_ns, uint64_t end_ns,
			    uint64_t speed);

/* The ticket's work that came late uses time in which the engine was idle. Returns the work that
 * is left. *ret_end_ns is set where any was done. */
uint64_t engine_book_gap_claim(struct segment_engines *engines,
			       const struct engine_core_rules *rules,
			       const struct segment_ticket *ticket, uint64_t ready_ns,
			       uint64_t work_ns, uint64_t *ret_end_ns);
