/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin/inject/inject.h for tests in Python: edits cdi|plain DRIVER_FOLDER GUESTS HOOK CDI_FOLDER
 * KIND NAME FOLDER NODE... Writes the CDI file, or prints the edits for runtimes without CDI, a
 * line each, its words with tabs between them.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin/inject/inject.h"

enum { NODES = 16 };

static int say(const struct inject_edits *edits, const struct inject_slot *slot, struct fault *why)
{
	owned(inject_free) struct inject_edits *plain = NULL;
	int r = inject_without_cdi(edits, slot, &plain, why);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < plain->envs; i++)
		printf("env\t%s\t%s\n", plain->env[i].name, plain->env[i].value);
	for (uint32_t i = 0; i < plain->mounts; i++)
		printf("mount\t%s\t%s\t%s\n", plain->mount[i].from, plain->mount[i].to,
		       plain->mount[i].writable ? "rw" : "ro");
	for (uint32_t i = 0; i < plain->nodes; i++)
		printf("node\t%s\t%s\n", plain->node[i].from, plain->node[i].to);
	if (plain->hook)
		printf("hook\t%s\n", plain->hook);
	return 0;
}

int main(int argc, char **argv)
{
	owned(inject_free) struct inject_edits *edits = NULL;
	struct inject_machine machine = {.driver_root = "/", .host_driver_root = "/"};
	struct inject_node nodes[NODES];
	struct inject_slot slot;
	struct fault why;
	int r;

	if (argc < 9 || argc > 9 + NODES)
		return 2;
	/* Of an installation that lies elsewhere, as files; "-": its folder is found. */
	if (getenv("METE_TEST_DRIVER_ROOT"))
		machine.driver_root = machine.host_driver_root = getenv("METE_TEST_DRIVER_ROOT");
	machine.driver_folder = strcmp(argv[2], "-") != 0 ? argv[2] : NULL;
	machine.guest = machine.host_guest = argv[3];
	machine.hook = argv[4];
	for (int i = 9; i < argc; i++)
		nodes[i - 9] = (struct inject_node){argv[i], argv[i]};
	slot = (struct inject_slot){.kind = argv[6],
				    .name = argv[7],
				    .folder = argv[8],
				    .nodes = nodes,
				    .node_count = (uint32_t)argc - 9};
	r = inject_look(&machine, NULL, &edits, &why);
	if (r == 0)
		r = strcmp(argv[1], "cdi") == 0 ? inject_write_cdi(argv[5], edits, &slot, &why)
						: say(edits, &slot, &why);
	if (r == 0)
		return 0;
	fprintf(stderr, "edits: %s\n", why.text);
	return 1;
}
