/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's files below a root; for plugin/inject/inject*.c only. */
#pragma once

#include "hook/root.h"
#include "plugin/inject/inject.h"

struct inject_driver {
	struct root root;      /* owned */
	char folder[PATH_MAX]; /* the path of its libcuda.so.1, relative to the root */
	char real[PATH_MAX];   /* the file that it leads to */
	char release[64];      /* "570.124.06", or "" if the file names do not contain it */
	int version;	       /* 12090 */
	bool simulated;
};

void inject_driver_done(struct inject_driver *driver);
static inline void inject_driver_done_owned(struct inject_driver *driver)
{
	inject_driver_done(driver);
}

must_check int inject_driver_find(const struct inject_machine *machine,
				  struct inject_driver *ret_driver, struct fault *why);

/* inject_handout.c: 0, or -errno: then nothing is handed out. *ret_handout is empty before. */
must_check int inject_hand_out(struct inject_driver *driver, struct inject_handout *ret_handout);

/* Does the file belong to this driver, and not to another package with a similar name? */
bool inject_is_of_release(const struct inject_driver *driver, const char *real);

/* Its libraries and nvidia-smi as mounts; `handed_out`: except libcuda and libnvidia-ml. */
must_check int inject_driver_files(struct inject_driver *driver, bool handed_out,
				   const struct inject_machine *machine, struct inject_edits *edits,
				   struct fault *why);

/* The path on the host of `path` below the root. -ENAMETOOLONG */
must_check int inject_on_host(const struct inject_machine *machine, const char *path,
			      char ret_path[PATH_MAX]);

/* Do libraries of that name belong to a driver, and use a GPU only through the CUDA driver API? */
bool inject_is_driver_name(const char *name);
