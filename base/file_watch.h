/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports when a file may have changed, or may be gone. The folder is watched, because editors and
 * Kubernetes' ConfigMaps replace the file (or the target of a link). Where that cannot be had, the
 * file is looked at each second (base/notices.h).
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"
#include "base/loop.h"
#include "base/notices.h"

struct file_watch {
	struct loop_watch watch;
	void (*changed)(struct file_watch *watch);
	void (*closed)(struct file_watch *watch);
	struct notices notices;
	char *path;
};

must_check int file_watch_open(struct loop *loop, struct file_watch *watch, const char *path,
			       void (*changed)(struct file_watch *watch), struct fault *why);
/* If the watch was open, the loop calls closed() later. Otherwise closed() is not called, and the
 * result is false.
 */
bool file_watch_close(struct file_watch *watch, void (*closed)(struct file_watch *watch));
