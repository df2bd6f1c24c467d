/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that no tenant holds: see the top of outside.c. */
#pragma once

#include "node/daemon.h"

must_check int outside_open(struct daemon *d);
void outside_close(struct daemon *d);
/* Requests an update by the measurement that measure_start() starts, or by the next one. */
void outside_want(struct daemon *d);
/* If the figures are older than a second, requests new ones. Returns the measurement that will
 * have them. */
must_check uint64_t outside_fresh(struct daemon *d);
/* A guest asks for memory: see the top of outside.c. */
void outside_asker(struct guest_device *at, uint64_t bytes);
/* A device was measured. / A measurement is complete. / It takes too long. */
void outside_seen(struct daemon *d, uint32_t index);
void outside_looked(struct daemon *d);
void outside_late(struct daemon *d);
uint64_t outside_bytes(const struct daemon *d, uint32_t device);
/* A row to display; false: there is none at this place. */
bool outside_row(const struct daemon *d, uint32_t device, uint32_t place,
		 struct wire_outside_row *ret_row);
/* " by tenants, 3GiB outside mete (python, pid 4711, and 2 others)"; "": there is nothing. */
struct outside_text {
	char text[128];
};
struct outside_text outside_text(const struct daemon *d, uint32_t device);
