/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows to be shown: meted's, or, if none runs, the devices by NVML.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"
#include "base/text.h"
#include "base/board.h"
#include "wire/wire.h"

struct ps_filter;

struct ps_text {
	char text[512];
};

/* Users' names from another source than the name service, which may wait for the network. Commands
 * are then those that guests report: the memory of processes is not read. */
struct ps_names {
	struct ps_text (*user)(void *owner, uint32_t uid);
	void *owner;
};

struct ps_rows {
	struct wire_message *row; /* in the order in which they came */
	size_t count, room;
	bool absent;	  /* no meted runs */
	struct fault why; /* ... and there is no driver to ask either; "": there is */
	struct wire_admin_welcome daemon;
	const char *node;	/* borrowed: the cluster's node; NULL: this machine */
	struct fault elsewhere; /* meted is on another simulated node; "": it is not */
	const struct ps_filter
		*filter; /* borrowed: which of them are shown (cli/ps_filter.h); NULL: all */
	bool flat;	 /* no tenant is within another, so rows need not be searched for that */
	const struct ps_names *names; /* borrowed; NULL: as the machine has them */
	/* What devices' boards say, by index; borrowed. NULL: nobody has asked. */
	const struct gpu_board *board;
	uint32_t boards;
};

/* A new row, all zero, at the end; NULL without memory. */
struct wire_message *ps_rows_add(struct ps_rows *rows);
void ps_rows_free(struct ps_rows *rows);

/* In the form of NVIDIA's tools: "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", or "MIG-...". */
struct ps_uuid {
	char text[80];
};
struct ps_uuid ps_uuid(const struct wire_device_row *device);

/* An empty row where there is none. */
const struct wire_device_row *ps_device(const struct ps_rows *rows, uint32_t index);
/* The first row of the tenant of that number, on whichever device; NULL: there is none. */
const struct wire_tenant_row *ps_tenant(const struct ps_rows *rows, uint32_t tenant);

/* Device memory that tenants hold; and memory in use that no tenant holds. */
uint64_t ps_used(const struct wire_device_row *device);
uint64_t ps_outside(const struct ps_rows *rows, uint32_t device);
uint64_t ps_free(const struct ps_rows *rows, const struct wire_device_row *device);

/* Memory of a tenant on a device: held by its own processes; and by those of tenants within it. */
uint64_t ps_held(const struct wire_tenant_row *tenant);
uint64_t ps_within(const struct ps_rows *rows, const struct wire_tenant_row *tenant);
/* Whether there are any within it. */
bool ps_has_within(const struct ps_rows *rows, const struct wire_tenant_row *tenant);

/* All amounts of one screen are in one unit, so that they can be compared at a glance, and are
 * rounded to its last digit. Held amounts are rounded up, free ones down: then no request waits for
 * less than what is shown as free. */
struct ps_unit {
	const char *name;
	unsigned shift, digits;
};
struct ps_unit ps_unit(const struct ps_rows *rows);
uint64_t ps_steps(struct ps_unit unit, uint64_t bytes, enum text_rounding rounding);
/* "1.25", without the unit's name. */
struct ps_text ps_amount(struct ps_unit unit, uint64_t steps);
/* The steps of a device's and of a tenant's amounts, such that parts add up to their sum. */
uint64_t ps_free_steps(const struct ps_rows *rows, const struct wire_device_row *device);
uint64_t ps_held_steps(const struct ps_rows *rows, const struct wire_tenant_row *tenant);

/* "alice", or the number if it has no name. */
struct ps_text ps_user(uint32_t uid);
struct ps_text ps_user_of(const struct ps_rows *rows, uint32_t uid);
/* The user of a process; UINT32_MAX: not known. */
uint32_t ps_owner(uint32_t pid);
/* A process's command line, safe to print; "" if /proc does not tell. */
struct ps_text ps_command(uint32_t pid);
struct ps_text ps_guest_command(const struct ps_rows *rows, const struct wire_guest_row *guest);
struct ps_text ps_outside_command(const struct ps_rows *rows,
				  const struct wire_outside_row *outside);
/* Of the process that began it, or what its guests report. */
struct ps_text ps_tenant_command(const struct ps_rows *rows, const struct wire_tenant_row *tenant);
/* "12 s", "3 min", "2 h 10 min", "5 d 3 h" */
struct ps_text ps_duration(uint64_t ns);
/* How long a turn or memory was waited for: "0.42 ms", "12.5 s" */
struct ps_text ps_wait(double ns);

/* The value of a field that is in force, from the fields that were set. */
struct ps_text ps_field(const wire_text *share, const char *key);

/* A tenant's state and the reason, as one sentence. `ret_bad`: 0 all is well, 1 worth attention, 2
 * wrong. */
struct ps_text ps_state(const struct ps_rows *rows, const struct wire_tenant_row *tenant,
			int *ret_bad);
struct ps_text ps_picked(const struct wire_device_row *device);

static inline void ps_rows_free_owned(struct ps_rows *rows)
{
	ps_rows_free(rows);
}
