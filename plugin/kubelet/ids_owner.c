/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/ids_owner.h"

#include <string.h>

#include "base/file.h"
#include "plugin/kubelet/checkpoint.h"

/* An init container has the same ids as the container that follows it. Both are of one pod, so it
 * does not matter which of them is named. */
static void on_found(void *owner, const char *uid, const char *container)
{
	struct ids_owner *holder = owner;

	if (holder->pods && strcmp(holder->uid, uid) != 0)
		holder->pods = 2;
	if (holder->pods)
		return;
	holder->pods = 1;
	snprintf(holder->uid, sizeof(holder->uid), "%s", uid);
	snprintf(holder->container, sizeof(holder->container), "%s", container);
}

struct ids_owner ids_owner_find(const struct plugin *p, const char *resource,
				const char *const *ids, size_t count)
{
	owned(free) char *text = NULL;
	struct ids_owner holder = {.pods = 0};
	char path[PLUGIN_PATH + 40];
	size_t size;

	snprintf(path, sizeof(path), "%s/kubelet_internal_checkpoint", p->folder);
	if (file_slurp(path, CHECKPOINT_BYTES_MAX, &text, &size) == 0 &&
	    checkpoint_look(text, size, resource, ids, count, on_found, &holder) < 0)
		log_debug("checkpoint.unread", "path=%s", path);
	return holder;
}
