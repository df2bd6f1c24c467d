/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/nvidia/node_features.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "plugin/kubelet/numa.h"
#include "plugin/nvidia/features.h"

enum { LINE_MOST = 4096, UNDONE_MOST = 3 };

#define TIMESTAMP "nvidia.com/gfd.timestamp" /* differs each time */

/* The first line of a file; NULL: there is none. Newly allocated. Links are followed, as a
 * ConfigMap's files are some. The open never waits for the writer of a pipe. */
static char *read_line(const char *path)
{
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat about;
	char *text = NULL;
	size_t size;

	if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) ||
	    file_slurp_from(fd, LINE_MOST, &text, &size) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

/* "": it is not known, or not the same for all. */
static void find_class(const struct plugin *p, char ret_class[16])
{
	*ret_class = '\0';
	for (uint32_t i = 0; i < p->host->devices; i++) {
		char path[64], name[24];
		owned(free) char *line = NULL;

		if (numa_name(p->host->device[i].pci, name) == 0) {
			snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/class", name);
			line = read_line(path);
		}
		if (!line || (*ret_class && strcmp(ret_class, line) != 0)) {
			*ret_class = '\0';
			return;
		}
		snprintf(ret_class, 16, "%.15s", line);
	}
}

/* False: there is no whole GPU. */
static bool fill_gpu(const struct plugin *p, struct features *f)
{
	const struct host_device *first = NULL;

	for (uint32_t i = 0; i < p->host->devices; i++) {
		const struct host_device *one = &p->host->device[i];

		f->is_divisible |= one->is_divisible;
		if (one->gpu_instance >= 0)
			continue;
		if (!first) {
			first = one;
			f->replicas = p->offer[i].slots > 1 ? p->offer[i].slots : 1;
		}
		f->count += strcmp(one->model, first->model) == 0;
	}
	if (!first)
		return false;
	f->model = first->model;
	f->total_bytes = first->total_bytes;
	f->cc_major = first->cc_major;
	f->cc_minor = first->cc_minor;
	return true;
}

static void add(void *owner, const char *key, const char *value)
{
	cJSON **labels = owner;

	if (*labels && !cJSON_AddStringToObject(*labels, key, value)) {
		cJSON_Delete(*labels);
		*labels = NULL;
	}
}

cJSON *node_features(const struct plugin *p)
{
	const struct config_as_nvidia *alone = &p->config->as_nvidia;
	owned(free) char *machine = NULL;
	char class[16];
	struct features f = {.driver = p->host->driver_version,
			     .cuda = p->host->cuda_version,
			     .pci_class = class,
			     .renamed = strcmp(p->config->resource, "nvidia.com/gpu") != 0};
	cJSON *labels = NULL;

	if (!p->config->features || !fill_gpu(p, &f))
		return NULL;
	find_class(p, class);
	machine = read_line(alone->machine_file);
	f.machine = machine ? machine : "";
	f.timestamp = alone->timeless ? 0 : (uint64_t)time(NULL);
	labels = cJSON_CreateObject();
	features_each(&f, add, &labels);
	return labels;
}

bool node_features_shown(const cJSON *wanted, const cJSON *labels)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, wanted)
	{
		const char *shown = json_text(labels, one->string);

		if (!shown ||
		    (strcmp(shown, one->valuestring) != 0 && strcmp(one->string, TIMESTAMP) != 0))
			return false;
	}
	return true;
}

static bool are_same(const cJSON *a, const cJSON *b)
{
	return a && b && cJSON_GetArraySize(a) == cJSON_GetArraySize(b) &&
	       node_features_shown(a, b);
}

/* The first label that has another value; NULL: none. One that is missing is not one. */
static const cJSON *find_other(const cJSON *wanted, const cJSON *labels)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, wanted)
	{
		const char *shown = json_text(labels, one->string);

		if (shown && strcmp(shown, one->valuestring) != 0 &&
		    strcmp(one->string, TIMESTAMP) != 0)
			return one;
	}
	return NULL;
}

bool features_rival_look(struct features_rival *rival, const cJSON *wanted, const cJSON *labels,
			 struct fault *ret_what)
{
	const cJSON *other = find_other(wanted, labels);

	if (!are_same(wanted, rival->wanted)) {
		features_rival_done(rival);
		*rival = (struct features_rival){.wanted = cJSON_Duplicate(wanted, true)};
	}
	if (!other) {
		rival->shown = node_features_shown(wanted, labels);
		return false;
	}
	if (!rival->shown || rival->yields)
		return false;
	rival->shown = false;
	if (++rival->undone < UNDONE_MOST)
		return false;
	rival->yields = true;
	best_effort(fault_set(
		ret_what, 0,
		"another program writes the labels of GPU feature discovery on this node, too (%s: "
		"'%s' instead of '%s'): mete leaves them to it; switch one of the two off "
		"(NVIDIA's "
		"DaemonSet, or feature-labels in mete's configuration)",
		other->string, json_text(labels, other->string), other->valuestring));
	return true;
}

void features_rival_done(struct features_rival *rival)
{
	cJSON_Delete(rival->wanted);
	rival->wanted = NULL;
}
