/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/numa.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { NODES_MAX = 1024 };

int numa_name(const char *pci, char ret_name[24])
{
	unsigned domain, bus, slot, function;
	int used = 0;

	/* sscanf() would take signs and blanks, too. */
	if (strlen(pci) > 20 || pci[strspn(pci, "0123456789abcdefABCDEF:.")] ||
	    sscanf(pci, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &used) != 4 ||
	    pci[used])
		return -EINVAL;
	snprintf(ret_name, 24, "%04x:%02x:%02x.%x", domain, bus, slot, function);
	return 0;
}

int numa_node(const char *root, const char *pci)
{
	char path[PATH_MAX], name[24];
	owned(free) char *text = NULL;
	size_t size;
	char *end;
	long node;

	if (numa_name(pci, name) < 0 ||
	    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/numa_node",
		     strcmp(root, "/") == 0 ? "" : root, name) >= (int)sizeof(path) ||
	    file_slurp(path, 64, &text, &size) < 0)
		return -1;
	node = strtol(text, &end, 10);
	return end != text && (!*end || *end == '\n') && node >= 0 && node < NODES_MAX ? (int)node
										       : -1;
}
