/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/inject/inject.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>

#include "base/file.h"
#include "plugin/inject/inject_driver.h"
#include "plugin/inject/inject_edits.h"
#include "tests/folder.h"
#include "tests/test.h"

static char folder[64], name[NAME_MAX];

static void given_a_folder(void)
{
	strcpy(folder, "/tmp/mete-cdi-XXXXXX");
	folder_make(folder);
}

static struct inject_edits *given_edits(void)
{
	struct inject_edits *edits = calloc(1, sizeof(*edits));

	expect_eq(edits_mount(edits, "/opt/\"mete\"/libmete.so", "/usr/lib/mete/libmete.so", false),
		  0);
	expect_eq(edits_mount(edits, "/shared", "/run/shared", true), 0);
	expect_eq(edits_env(edits, "NVIDIA_VISIBLE_DEVICES", "void"), 0);
	expect_eq(edits_node(edits, "/driver/dev/nvidiactl", "/dev/nvidiactl"), 0);
	expect_eq(edits_text(&edits->hook, "/opt/mete-hook"), 0);
	return edits;
}

static char node[] = "/dev/nvidia0", node_on_host[] = "/driver/dev/nvidia0",
	    capability[] = "/dev/nvidia-caps/nvidia-cap3";
static const struct inject_node nodes[] = {{node_on_host, node}, {capability, capability}};
static const struct inject_slot slot = {.kind = "mete.dev/slot",
					.name = "a1",
					.folder = "/run/mete/tenants/7",
					.nodes = nodes,
					.node_count = 2};

TEST(a_file_is_called_after_its_device)
{
	expect_eq(inject_cdi_file("mete.dev/slot", "a1b2c3", name, sizeof(name)), 0);
	expect_str(name, "mete.dev-slot_a1b2c3.json");
	expect_eq(inject_cdi_file("mete.dev/slot", "a1b2c3", name, 25), -ENAMETOOLONG);
	expect_eq(inject_cdi_file("mete.dev/slot", "a1b2c3", name, 26), 0);
}

TEST(names_that_are_none_to_cdi_are_refused)
{
	static const char *const kinds[] = {
		"",	   "mete.dev",	     "/slot",	"mete.dev/",	  "a/b/c",   "1mete/slot",
		"mete./s", "mete.dev/1slot", "m/s.lot", "mete.dev/sl ot", "-m/slot", "m/slot-"};
	static const char *const names[] = {"",	   "../x", "a/b",  "-a", "a-",
					    "a b", "a\n",  "a\"b", "."};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		expect_eq(inject_cdi_file(kinds[i], "x", name, sizeof(name)), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		expect_eq(inject_cdi_file("m/s", names[i], name, sizeof(name)), -EINVAL);
	expect_eq(inject_cdi_file("a/b", "GPU-1:2.x_3", name, sizeof(name)), 0);
}

/* At "a.b.0.c": what stands there. */
static const cJSON *at(const cJSON *json, const char *path)
{
	char part[64];
	int used;

	while (json && sscanf(path, "%63[^.]%n", part, &used) == 1) {
		json = cJSON_IsArray(json) ? cJSON_GetArrayItem(json, atoi(part))
					   : cJSON_GetObjectItemCaseSensitive(json, part);
		path += used + (path[used] == '.');
	}
	return json;
}

static void expect_text(const cJSON *json, const char *path, const char *wanted)
{
	expect_str(cJSON_GetStringValue(at(json, path)), wanted);
}

static cJSON *read_device(void)
{
	owned(free) char *text = NULL;
	char path[128];
	struct stat about;
	size_t size;

	snprintf(path, sizeof(path), "%s/mete.dev-slot_a1.json", folder);
	expect_eq(file_slurp(path, 1 << 20, &text, &size), 0);
	expect_eq(stat(path, &about), 0);
	expect_eq(about.st_mode & 0777, 0644);
	return cJSON_Parse(text);
}

static size_t count_files(void)
{
	DIR *there = opendir(folder);
	size_t count = 0;

	while (readdir(there))
		count++;
	closedir(there);
	return count - 2;
}

TEST(a_device_has_all_edits_of_its_slot)
{
	owned(inject_free) struct inject_edits *edits = given_edits();
	mode_t before = umask(077);
	const cJSON *changes;
	struct fault why;
	cJSON *file;

	given_a_folder();
	expect_eq(inject_write_cdi(folder, edits, &slot, &why), 0);
	/* Again, in its own place. */
	expect_eq(inject_write_cdi(folder, edits, &slot, &why), 0);
	umask(before);
	expect_eq(count_files(), 1);
	file = read_device();
	expect_str(cJSON_GetStringValue(cJSON_GetObjectItem(file, "cdiVersion")), "0.5.0");
	expect_text(file, "kind", "mete.dev/slot");
	expect_text(file, "devices.0.name", "a1");
	changes = at(file, "devices.0.containerEdits");
	expect_text(changes, "env.0", "NVIDIA_VISIBLE_DEVICES=void");
	expect_text(changes, "mounts.0.hostPath", "/opt/\"mete\"/libmete.so");
	expect_text(changes, "mounts.0.options.0", "ro");
	expect_text(changes, "mounts.1.options.0", "rw");
	expect_text(changes, "mounts.2.hostPath", "/run/mete/tenants/7");
	expect_text(changes, "mounts.2.containerPath", "/run/mete");
	expect_text(changes, "mounts.2.options.0", "ro");
	expect_text(changes, "deviceNodes.0.hostPath", "/driver/dev/nvidiactl");
	expect_text(changes, "deviceNodes.0.path", "/dev/nvidiactl");
	expect_text(changes, "deviceNodes.1.hostPath", "/driver/dev/nvidia0");
	expect_text(changes, "deviceNodes.1.path", "/dev/nvidia0");
	expect_text(changes, "deviceNodes.2.path", "/dev/nvidia-caps/nvidia-cap3");
	expect_text(changes, "hooks.0.hookName", "createContainer");
	expect_text(changes, "hooks.0.path", "/opt/mete-hook");
	expect_text(changes, "hooks.0.args.1", "/opt/\"mete\"/libmete.so");
	expect_eq(cJSON_GetArraySize(at(changes, "mounts")), 3);
	expect_eq(cJSON_GetArraySize(at(changes, "deviceNodes")), 3);
	cJSON_Delete(file);
	/* Files that all share are as they were. */
	expect_eq(edits->mounts, 2);
	expect_eq(inject_remove_cdi(folder, slot.kind, slot.name, &why), 0);
	expect_eq(inject_remove_cdi(folder, slot.kind, slot.name, &why), 0);
	expect_eq(rmdir(folder), 0);
}

/* A container that has several of a claim's devices has each mount and hook once. */
TEST(devices_of_a_file_share_its_edits)
{
	static const struct inject_part parts[] = {{nodes, 1}, {nodes + 1, 1}, {NULL, 0}};
	owned(inject_free) struct inject_edits *edits = given_edits();
	struct inject_slot claim = slot;
	struct fault why;
	cJSON *file;

	given_a_folder();
	claim.nodes = NULL;
	claim.node_count = 0;
	claim.parts = parts;
	claim.part_count = ARRAY_SIZE(parts);
	claim.claim = "ns/c";
	expect_eq(inject_write_cdi(folder, edits, &claim, &why), 0);
	file = read_device();
	expect_eq(cJSON_GetArraySize(at(file, "devices")), 3);
	expect_text(file, "devices.0.name", "a1-0");
	expect_text(file, "devices.2.name", "a1-2");
	expect_text(file, "devices.0.containerEdits.deviceNodes.0.path", "/dev/nvidia0");
	expect_text(file, "devices.1.containerEdits.deviceNodes.0.path", capability);
	/* CDI refuses a device that does nothing. */
	expect_text(file, "devices.2.containerEdits.env.0", "METE_CLAIM=ns/c");
	expect(!at(file, "devices.2.containerEdits.deviceNodes"));
	expect(!at(file, "devices.0.containerEdits.mounts"));
	expect(!at(file, "devices.0.containerEdits.hooks"));
	expect_text(file, "containerEdits.hooks.0.path", "/opt/mete-hook");
	expect_text(file, "containerEdits.env.0", "NVIDIA_VISIBLE_DEVICES=void");
	expect(at(file, "containerEdits.mounts.0"));
	cJSON_Delete(file);
}

TEST(a_file_that_cannot_be_written_is_named_and_leaves_nothing)
{
	owned(inject_free) struct inject_edits *edits = given_edits();
	struct inject_slot odd = slot;
	char nowhere[128];
	struct fault why;

	given_a_folder();
	odd.name = "../a";
	expect_eq(inject_write_cdi(folder, edits, &odd, &why), -EINVAL);
	expect_str(why.text, "'mete.dev/slot=../a' is not the name of a CDI device");
	expect_eq(inject_remove_cdi(folder, odd.kind, odd.name, &why), -EINVAL);
	snprintf(nowhere, sizeof(nowhere), "%s/a/b", folder);
	expect_eq(inject_write_cdi(nowhere, edits, &slot, &why), -ENOENT);
	free(take(edits->hook));
	expect_eq(inject_write_cdi(folder, edits, &slot, &why), -EINVAL);
	expect_eq(rmdir(folder), 0);
}

TEST(a_folder_for_devices_is_made)
{
	owned(inject_free) struct inject_edits *edits = given_edits();
	char made[128];
	struct fault why;

	given_a_folder();
	snprintf(made, sizeof(made), "%s/cdi", folder);
	expect_eq(inject_write_cdi(made, edits, &slot, &why), 0);
	expect_eq(inject_remove_cdi(made, slot.kind, slot.name, &why), 0);
	expect_eq(rmdir(made), 0);
	expect_eq(rmdir(folder), 0);
}

TEST(without_cdi_there_is_no_hook_and_a_preload)
{
	owned(inject_free) struct inject_edits *edits = given_edits(), *plain = NULL;
	struct fault why;
	bool preloads = false;

	expect_eq(inject_without_cdi(edits, &slot, &plain, &why), -ENOENT);
	expect_eq(edits_text(&edits->preload, "/opt/preload"), 0);
	expect_eq(
		edits_mount(edits, "/d/libx.so.1", "/usr/lib/mete/driver/libnvidia-x.so.1", false),
		0);
	expect_eq(inject_without_cdi(edits, &slot, &plain, &why), 0);
	expect(plain->hook == NULL);
	expect_eq(plain->nodes, 3);
	for (uint32_t i = 0; i < plain->mounts; i++)
		preloads |= strcmp(plain->mount[i].to, "/etc/ld.so.preload") == 0 &&
			    strcmp(plain->mount[i].from, "/opt/preload") == 0;
	expect(preloads);
	/* Three of all, the tenant's, the preload, and 5 names in each of two folders. */
	expect_eq(plain->mounts, 3 + 1 + 1 + 2 * 5);
}

TEST(too_many_edits_are_an_error_and_no_overflow)
{
	owned(inject_free) struct inject_edits *edits = given_edits();
	struct fault why;

	while (edits->mounts < INJECT_EDITS_MAX)
		expect_eq(edits_mount(edits, "/a", "/b", false), 0);
	while (edits->nodes < INJECT_EDITS_MAX)
		expect_eq(edits_node(edits, "/a", "/b"), 0);
	while (edits->envs < INJECT_ENV_MAX)
		expect_eq(edits_env(edits, "a", "b"), 0);
	expect_eq(edits_mount(edits, "/a", "/b", false), -E2BIG);
	expect_eq(edits_node(edits, "/a", "/b"), -E2BIG);
	expect_eq(edits_env(edits, "a", "b"), -E2BIG);
	expect_eq(inject_write_cdi("/nowhere", edits, &slot, &why), -E2BIG);
}

TEST(libraries_that_pass_by_the_driver_api_stay_outside)
{
	expect(inject_is_driver_name("libcuda.so.1"));
	expect(inject_is_driver_name("libcudadebugger.so.570.1"));
	expect(inject_is_driver_name("libnvidia-ml.so.1"));
	expect(inject_is_driver_name("libnvidia-ptxjitcompiler.so.1"));
	expect(inject_is_driver_name("libnvidia-encode.so.1"));
	expect(!inject_is_driver_name("libnvidia-opencl.so.1"));
	expect(!inject_is_driver_name("libnvidia-glcore.so.570.1"));
	expect(!inject_is_driver_name("libnvidia-eglcore.so.570.1"));
	expect(!inject_is_driver_name("libcudart.so.12"));
	expect(!inject_is_driver_name("libc.so.6"));
	expect(!inject_is_driver_name("libnvidia-ml"));
}

TEST(a_machine_without_a_driver_is_told_from_one_with_a_broken_one)
{
	struct inject_machine machine = {.driver_root = folder, .guest = folder, .host_guest = "/"};
	struct inject_edits *edits = NULL;
	char path[128];
	struct fault why;

	given_a_folder();
	expect_eq(inject_look(&machine, NULL, &edits, &why), -ENOENT);
	machine.driver_folder = "/lib";
	expect_eq(inject_look(&machine, NULL, &edits, &why), -ENOENT);
	snprintf(path, sizeof(path), "%s/lib", folder);
	expect_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/lib/libcuda.so.1", folder);
	expect_eq(symlink("/etc/passwd", path), 0); /* of that root, which has none */
	expect_eq(inject_look(&machine, NULL, &edits, &why), -ENOENT);
	expect_eq(unlink(path), 0);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	expect_eq(inject_look(&machine, NULL, &edits, &why), -EINVAL);
	expect(strstr(why.text, "cannot be loaded") != NULL);
	expect(edits == NULL);
	expect_eq(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/lib", folder);
	expect_eq(rmdir(path), 0);
	expect_eq(rmdir(folder), 0);
}
