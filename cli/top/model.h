/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mete top` knows: meted's rows at the last refresh, the boards' own figures, and each
 * tenant's history.
 */
#pragma once

#include "cli/gpus.h"
#include "cli/remote.h"
#include "view/ps_rows.h"
#include "cli/top/history.h"

struct model_device {
	const struct wire_device_row *row; /* in `rows` */
	struct gpu_board gauges;
	uint64_t since_us; /* the newest sample that was read, by the driver's clock */
};

struct model_tenant {
	const struct wire_tenant_row *row; /* in `rows` */
	/* Per mille of the last second, HISTORY_UNSAID if not known. On a governed device by
	 * meted's clock; else by the driver's samples, and `due` is 0. */
	uint16_t had, due;
};

struct model {
	struct ps_rows rows;
	struct model_device *device;
	size_t devices;
	struct model_tenant *tenant; /* by tenant, then by device */
	size_t tenants;
	struct history history; /* of tenants */
	struct history boards;	/* how busy each device was, by its driver */
	struct gpus *gpus;	/* NULL: there is no management library here, or meted is on another
				   machine */
	bool asked;		/* whether there is one */
	struct fault
		trouble; /* why the last refresh failed, and the rest is older; "": it did not */
};

/* A meted that does not answer is no failure but `trouble`. -ENOMEM: nothing has changed. `filter`:
 * borrowed; which rows are shown; it may change between two refreshes. */
must_check int model_refresh(struct model *model, struct remote *remote,
			     const struct ps_filter *filter, struct fault *why);
void model_free(struct model *model);

/* How busy the device was; NULL: it was not seen. */
const struct history_track *model_board(const struct model *model, uint32_t device);

/* NULL: there is none. */
const struct model_tenant *model_tenant(const struct model *model, uint32_t tenant,
					uint32_t device);
