/* SPDX-License-Identifier: Apache-2.0 */
/* The pods whose ids the kubelet's record has, where the API server knows of all pods. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/kubelet/allocated.h"
#include "plugin/nvidia/parts.h"
#include "tests/test.h"

#define RUNS	"0d2b62a1-8f0a-4c0f-9d3a-7a1d2f5b9c01"
#define ENDED	"0d2b62a1-8f0a-4c0f-9d3a-7a1d2f5b9c02"
#define DELETED "0d2b62a1-8f0a-4c0f-9d3a-7a1d2f5b9c03"
#define STATIC	"6f1ed002ab5595859014ebf0951522d9"

#define ROW(uid, id)                                                                               \
	"{\"PodUID\":\"" uid "\",\"ContainerName\":\"main\",\"ResourceName\":\"nvidia.com/gpu\","  \
	"\"DeviceIDs\":{\"-1\":[\"" id "\"]}}"

static const char record[] = "{\"Data\":{\"PodDeviceEntries\":[" ROW(RUNS, "runs") "," ROW(
	ENDED, "ended") "," ROW(DELETED, "deleted") "," ROW(STATIC, "static") "]}}";

/* ---- what allocated.c asks others for ------------------------------------------------------ */

const struct pod *pods_find_uid(const struct pods *pods, const char *uid)
{
	static const struct pod runs, ended = {.over = true};

	(void)pods;
	return strcmp(uid, RUNS) == 0 ? &runs : strcmp(uid, ENDED) == 0 ? &ended : NULL;
}

bool pods_known(const struct pods *pods)
{
	(void)pods;
	return true;
}

int parts_device(const struct parts *parts, const char *id)
{
	(void)parts;
	(void)id;
	return -1;
}

/* -------------------------------------------------------------------------------------------- */

struct found {
	char ids[64];
};

static void on_found(void *owner, const struct pod *pod, const char *uid, const char *id)
{
	struct found *found = owner;
	size_t n = strlen(found->ids);

	(void)pod;
	(void)uid;
	snprintf(found->ids + n, sizeof(found->ids) - n, " %s", id);
}

/* As the API server has told of all that the record is about. */
static void write_old(const char *path)
{
	const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	expect(fd >= 0);
	expect_eq(write(fd, record, sizeof(record) - 1), (ssize_t)sizeof(record) - 1);
	expect_eq(futimens(fd, long_ago), 0);
	close(fd);
}

TEST(static_pods_without_a_mirror_are_known_before_idle_devices_are_taken)
{
	static struct host_device device[] = {
		{.uuid = "runs"}, {.uuid = "ended"}, {.uuid = "deleted"}, {.uuid = "static"}};
	static struct host host = {.device = device, .devices = ARRAY_SIZE(device)};
	bool given[HOST_DEVICES];
	static struct plugin plugin = {.host = &host, .pods = (struct pods *)&plugin};
	struct found known = {""}, all = {""};
	char path[PLUGIN_PATH + 40];

	snprintf(plugin.folder, sizeof(plugin.folder), "/tmp/mete-allocated-XXXXXX");
	expect(mkdtemp(plugin.folder));
	snprintf(path, sizeof(path), "%s/kubelet_internal_checkpoint", plugin.folder);
	write_old(path);
	expect_eq(allocated_known(&plugin, on_found, &known), 0);
	expect_str(known.ids, " runs static");
	allocated_of_all(&plugin, on_found, &all);
	expect_str(all.ids, " runs");
	allocated_devices(&plugin, NULL, given);
	expect(given[0] && !given[1] && !given[2] && given[3]);
	unlink(path);
	rmdir(plugin.folder);
}
