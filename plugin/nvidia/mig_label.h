/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's label nvidia.com/mig.config names a configuration of mig-parted's file; the GPUs are
 * divided so, and nvidia.com/mig.config.state says how far that is, as NVIDIA's mig-manager has
 * both. Meanwhile no container is given a device. Devices that containers have are not divided
 * under them.
 */
#pragma once

#include "plugin/plugin.h"

struct mig_label;

/* `file`: meted's option. */
must_check int mig_label_open(struct plugin *p, const char *file, struct mig_label **ret_label,
			      struct fault *why);
/* False: it was NULL. Otherwise closed() follows, when a division that is under way has ended. */
must_check bool mig_label_close(struct mig_label *label, void (*closed)(struct plugin *p));

/* The node's labels, as they are now. NULL: nothing is divided. */
void mig_label_seen(struct mig_label *label, const cJSON *labels);

/* At each check of health.c. */
void mig_label_look(struct mig_label *label);
/* The devices have been read again, after the last division. */
void mig_label_divided(struct mig_label *label);
