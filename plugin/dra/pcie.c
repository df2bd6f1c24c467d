/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/pcie.h"

#include <limits.h>
#include <string.h>

#include "plugin/kubelet/numa.h"

void pcie_root_in(const char *link, char ret_root[PCIE_ROOT])
{
	const char *at = strstr(link, "/pci");
	size_t length = at ? strcspn(at + 1, "/") : 0;

	*ret_root = '\0';
	if (at && at[1 + length] == '/' && length > strlen("pci") && length < PCIE_ROOT &&
	    strspn(at + 4, "0123456789abcdef:") == length - 3)
		snprintf(ret_root, PCIE_ROOT, "%.*s", (int)length, at + 1);
}

void pcie_root(const char *root, const char *pci, char ret_root[PCIE_ROOT])
{
	char path[PATH_MAX], name[24], link[PATH_MAX];
	ssize_t n;

	*ret_root = '\0';
	if (numa_name(pci, name) < 0 ||
	    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s",
		     strcmp(root, "/") == 0 ? "" : root, name) >= (int)sizeof(path))
		return;
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return;
	link[n] = '\0';
	pcie_root_in(link, ret_root);
}
