/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by core/placement/seating*.c only. */
#pragma once

#include "core/placement/seating.h"

/* One call's books. */
struct seating_books {
	const struct seating_node *node;
	struct placement *placement;
	uint32_t number; /* of the node */
	uint32_t alone;	 /* bits: devices that a container has, or once had, alone */
	bool parked;	 /* the memory of pods that yield does not count */
};

struct placement_request seating_request(const struct seating_pod *pod);

/* Sets the refusal of a pod that has no seat, by the books as they are. Of a pod that asks for
 * slots: with the largest of them, on any device, as it was tried last. */
void seating_explain(const struct seating_books *books, struct seating_pod *pod);
