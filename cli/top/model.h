/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mete top` knows: meted's rows of the last look, what the boards say of themselves, and what
 * each tenant had look by look.
 */
#pragma once

#include "cli/gpus.h"
#include "cli/remote.h"
#include "view/ps_rows.h"
#include "cli/top/history.h"

struct model_device {
	const struct wire_device_row *row; /* in `rows` */
	struct gpus_gauges gauges;
	uint64_t since_us; /* the newest sample that was read, by the driver's clock */
};

struct model_tenant {
	const struct wire_tenant_row *row; /* in `rows` */
	/* Per mille of the last second, HISTORY_UNSAID where nobody says: of a device whose tenants
	 * take turns by meted's clock; else by the driver's samples, and nothing is due. */
	uint16_t had, due;
};

struct model {
	struct ps_rows rows;
	struct model_device *device;
	size_t devices;
	struct model_tenant *tenant; /* by tenant, then by device */
	size_t tenants;
	struct history history;
	struct gpus
		*gpus; /* NULL: no management library here, or of another machine than meted's */
	bool asked;    /* whether there is one */
	struct fault trouble; /* why the last look failed: the rest is of the one before; "": it did
				 not */
};

/* A meted that does not answer is no failure but `trouble`. -ENOMEM: as it was.
 * `filter`: borrowed, of what is shown; it may change between two looks. */
must_check int model_look(struct model *model, struct remote *remote,
			  const struct ps_filter *filter, struct fault *why);
void model_free(struct model *model);

/* NULL: there is none. */
const struct model_tenant *model_tenant(const struct model *model, uint32_t tenant,
					uint32_t device);
