/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of devices and tenants in Prometheus' format, once for a node of Kubernetes and a
 * machine without it: view/metrics.def. */
#pragma once

#include "view/ps_rows.h"

/* Figures of a device that no row has. */
struct metrics_device {
	int minor;		     /* of its file, /dev/nvidia<minor>; -1: not known */
	int gpu_instance;	     /* of MIG; -1: it is a whole GPU */
	double slots, xids, healthy; /* NAN: there is no such figure here */
};

/* The holder of a tenant. */
struct metrics_holder {
	char namespace[WIRE_TEXT_MAX + 1];
	const char *pod, *container; /* lent as long as the text is written */
	bool over;		     /* it is over its limit, besides what its row says */
};

struct metrics_source {
	const char *node;
	void *owner;
	struct metrics_device (*device)(void *owner, uint32_t index);
	void (*holder)(void *owner, const struct wire_tenant_row *row,
		       struct metrics_holder *ret_holder);
};

/* A sample's first lines. */
void metrics_head(FILE *out, const char *name, const char *type, const char *help);

/* Of rows in the order of `mete ps`: processes follow their tenant. -ENOMEM. */
must_check int metrics_write_rows(FILE *out, const struct metrics_source *source,
				  const struct ps_rows *rows);
