/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/allocated.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "plugin/kubelet/checkpoint.h"
#include "plugin/nvidia/parts.h"
#include "plugin/plugin.h"

enum { LAG_S = 5 }; /* within this the API server tells us of a pod, after the kubelet */

struct looking {
	const struct plugin *plugin;
	allocated_found *found;
	void *owner;
	bool is_old; /* of the record: pods that we do not know no longer exist */
	bool keeps;  /* ... but for static ones */
};

/* The kubelet's own pods have a hash for a UID, those of the API server a UUID. Their mirrors prove
 * nothing: anybody may delete one, and where the API server admits none the pod runs as well. */
static bool is_static(const char *uid)
{
	return !strchr(uid, '-');
}

static void on_id(void *owner, const char *uid, const char *id)
{
	const struct looking *l = owner;
	const struct pods *pods = l->plugin->pods;
	const struct pod *pod = pods ? pods_find_uid(pods, uid) : NULL;

	if (pod ? !pod->over : !l->is_old || (l->keeps && is_static(uid)))
		l->found(l->owner, pod, uid, id);
}

/* The kubelet removes the ids of an ended pod from its record only when it next gives ids. */
static bool is_old(const struct plugin *p, const char *path)
{
	struct timespec now;
	struct stat info;

	if (!p->pods || !pods_known(p->pods) || p->api_problem || stat(path, &info) != 0)
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec - info.st_mtim.tv_sec > LAG_S;
}

/* `all`: not the served resources alone. */
static int each(const struct plugin *p, bool all, struct looking *l)
{
	owned(free) char *text = NULL;
	char path[PLUGIN_PATH + 40];
	size_t size;
	int r;

	snprintf(path, sizeof(path), "%s/kubelet_internal_checkpoint", p->folder);
	l->is_old = is_old(p, path);
	r = file_slurp(path, CHECKPOINT_BYTES_MAX, &text, &size);
	for (uint32_t i = 0; r == 0 && i < (all ? 1 : p->servings); i++) {
		r = checkpoint_given(text, size, all ? NULL : p->serving[i].resource, on_id, l);
		if (r < 0)
			log_debug("checkpoint.unread", "path=%s", path);
	}
	return r;
}

int allocated_device(const struct plugin *p, const char *id)
{
	int made = parts_device(p->parts, id);

	if (made >= 0)
		return made;
	for (uint32_t i = 0; i < p->host->devices; i++) {
		size_t n = strlen(p->host->device[i].uuid);

		if (strncmp(id, p->host->device[i].uuid, n) == 0 &&
		    (!id[n] || strncmp(id + n, "::", 2) == 0))
			return (int)i;
	}
	return -1;
}

struct devices {
	const struct plugin *plugin;
	const char *uid; /* NULL: any */
	bool *given;
};

static void on_device(void *owner, unused const struct pod *pod, const char *uid, const char *id)
{
	const struct devices *d = owner;
	int device = d->uid && strcmp(uid, d->uid) != 0 ? -1 : allocated_device(d->plugin, id);

	if (device >= 0)
		d->given[device] = true;
}

void allocated_devices(const struct plugin *p, const char *uid, bool ret_given[HOST_DEVICES])
{
	struct devices d = {p, uid, ret_given};

	memset(ret_given, 0, HOST_DEVICES * sizeof(*ret_given));
	/* Where there is no record, nothing was given. */
	best_effort(allocated_known(p, on_device, &d));
}

void allocated_each(const struct plugin *p, allocated_found *found, void *owner)
{
	struct looking l = {.plugin = p, .found = found, .owner = owner};

	best_effort(each(p, false, &l));
}

void allocated_of_all(const struct plugin *p, allocated_found *found, void *owner)
{
	struct looking l = {.plugin = p, .found = found, .owner = owner};

	best_effort(each(p, true, &l));
}

int allocated_known(const struct plugin *p, allocated_found *found, void *owner)
{
	struct looking l = {.plugin = p, .found = found, .owner = owner, .keeps = true};

	return each(p, true, &l);
}
