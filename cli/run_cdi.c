/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_cdi.h"

#include <string.h>
#include <sys/stat.h>

#include "base/parts.h"
#include "cli/gpus.h"
#include "plugin/inject/inject.h"
#include "wire/page.h"

#define USUAL_FOLDER "/var/run/cdi"
#define KIND	     "mete.dev/share"

/* The device nodes of the tenant's devices; texts belong to this struct. */
struct nodes {
	char text[WIRE_DEVICES][32];
	struct inject_node node[WIRE_DEVICES];
	uint32_t count;
	const char *visible; /* for devices without nodes; NULL: all have one */
};

static const char *folder_of(const struct cli_call *call)
{
	const char *said = cli_value(call, "cdi_folder");

	return said ? said : USUAL_FOLDER;
}

int run_cdi_check(const struct cli_call *call, struct fault *why)
{
	const char *name = cli_value(call, "name"), *folder = cli_value(call, "cdi_folder");
	char file[NAME_MAX + 1];

	if (!cli_value(call, "cdi"))
		return folder ? fault_set(why, -EINVAL,
					  "--cdi-folder says where --cdi writes: "
					  "accepted: together with --cdi")
			      : 0;
	if (!name)
		return fault_set(why, -EINVAL,
				 "--cdi: the device has the share's name: accepted: together with "
				 "--name");
	if (inject_cdi_file(KIND, name, file, sizeof(file)) < 0)
		return fault_set(why, -EINVAL,
				 "--name '%s' cannot be a CDI device's: accepted: letters and "
				 "digits, with '_', '-', '.' or ':' between them",
				 name);
	if (folder && folder[0] != '/')
		return fault_set(
			why, -EINVAL,
			"--cdi-folder '%s': accepted: an absolute path, as engines know it",
			folder);
	return 0;
}

/* ---- the devices ----------------------------------------------------------------------------- */

static int add_node(const struct gpus *gpus, const char *uuid, struct nodes *nodes,
		    struct fault *why)
{
	uint32_t n = nodes->count;
	int minor;

	if (strncmp(uuid, "MIG-", 4) == 0)
		return fault_set(why, -EOPNOTSUPP,
				 "--cdi: %s is a part of a GPU; accepted: whole GPUs", uuid);
	minor = gpus_minor(gpus, uuid);
	if (minor < 0)
		return fault_set(why, -ENODEV,
				 "--cdi: the driver does not say which file /dev/nvidiaN %s has",
				 uuid);
	if (n == WIRE_DEVICES)
		return fault_set(why, -E2BIG, "--cdi: more than %d devices", WIRE_DEVICES);
	snprintf(nodes->text[n], sizeof(nodes->text[n]), "/dev/nvidia%d", minor);
	nodes->node[n] = (struct inject_node){nodes->text[n], nodes->text[n]};
	nodes->count++;
	return 0;
}

/* A simulated device has no file: the variable tells which one it is. */
static int find_nodes(const struct driver *driver, const char *uuids, struct nodes *nodes,
		      struct fault *why)
{
	owned(gpus_close) struct gpus *gpus = NULL;
	owned(free) char *list = strdup(uuids);
	char *at = list, *uuid;
	int r;

	nodes->visible = driver->simulated ? uuids : NULL;
	if (driver->simulated)
		return 0;
	r = list ? gpus_open(&gpus, why) : fault_set(why, -ENOMEM, "out of memory");
	while (r == 0 && (uuid = strsep(&at, ",")))
		r = add_node(gpus, uuid, nodes, why);
	return r;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int describe_machine(const struct driver *driver, struct inject_edits **ret_edits,
			    struct fault *why)
{
	static const char *const guests[] = {"../guest", "../lib/mete/guest", NULL};
	static const char *const hooks[] = {"../hook/mete-hook", "../lib/mete/mete-hook", NULL};
	char guest[PATH_MAX], hook[PATH_MAX];
	struct inject_machine machine = {.driver_root = "/",
					 .host_driver_root = "/",
					 .driver_folder = driver->folder,
					 .guest = guest,
					 .host_guest = guest,
					 .hook = hook};
	int r = parts_find(guests, guest, why);

	if (r == 0)
		r = parts_find(hooks, hook, why);
	return r == 0 ? inject_look(&machine, NULL, ret_edits, why) : r;
}

static int write_file(const char *folder, const struct inject_edits *edits,
		      const struct inject_slot *slot, struct fault *why)
{
	int r;

	if (mkdir(folder, 0755) != 0 && errno != EEXIST)
		r = fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	else
		r = inject_write_cdi(folder, edits, slot, why);
	if (r == -EACCES || r == -EPERM || r == -EROFS)
		best_effort(fault_set(why, r,
				      "--cdi: %s cannot be written: accepted: root, or a "
				      "--cdi-folder of your own that the engine reads",
				      folder));
	return r;
}

int run_cdi_write(const struct cli_call *call, const struct driver *driver,
		  const struct wire_tenant_made *made, struct run_cdi *ret_cdi, struct fault *why)
{
	const char *name = cli_value(call, "name"), *visible = getenv("CUDA_VISIBLE_DEVICES");
	owned(inject_free) struct inject_edits *edits = NULL;
	owned(free) char *place = strdup(made->socket.text);
	char file[NAME_MAX + 1], path[PATH_MAX];
	struct nodes nodes = {0};
	struct inject_slot slot;
	int r;

	if (!cli_value(call, "cdi"))
		return 0;
	if (!place)
		return fault_set(why, -ENOMEM, "out of memory");
	/* If joined, made->name is the outer tenant's, and tells nothing about ours. */
	if (!made->joined && strcmp(made->name.text, name) != 0)
		return fault_set(why, -EEXIST,
				 "--cdi: there is a tenant called '%s' already: choose another "
				 "--name",
				 name);
	/* If joined, meted does not keep the name unique: the file tells whether it is taken. */
	if (made->joined && inject_cdi_file(KIND, name, file, sizeof(file)) == 0 &&
	    snprintf(path, sizeof(path), "%s/%s", folder_of(call), file) < (int)sizeof(path) &&
	    access(path, F_OK) == 0)
		return fault_set(why, -EEXIST, "--cdi: %s is there: choose another --name", path);
	*strrchr(place, '/') = '\0';
	r = find_nodes(driver, visible && *visible ? visible : made->uuid.text, &nodes, why);
	if (r == 0)
		r = describe_machine(driver, &edits, why);
	if (r < 0)
		return r;
	slot = (struct inject_slot){.kind = KIND,
				    .name = name,
				    .folder = place,
				    .nodes = nodes.node,
				    .node_count = nodes.count,
				    .visible = nodes.visible};
	r = write_file(folder_of(call), edits, &slot, why);
	if (r == 0)
		*ret_cdi = (struct run_cdi){folder_of(call), name};
	return r;
}

void run_cdi_remove(struct run_cdi *cdi)
{
	struct fault why;

	if (cdi->name && inject_remove_cdi(cdi->folder, KIND, cdi->name, &why) < 0)
		fprintf(stderr, "mete run: note: %s\n", why.text);
	cdi->name = NULL;
}
