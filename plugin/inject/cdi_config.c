/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "plugin/inject/cdi_choice.h"

enum { CONFIG_MOST = 1 << 20 };

char *cdi_config(const char *root)
{
	static const char *const files[] = {
		"/etc/containerd/config.toml",
		"/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
		"/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char path[PATH_MAX];
		char *text;
		size_t size;

		if (snprintf(path, sizeof(path), "%s%s", strcmp(root, "/") == 0 ? "" : root,
			     files[i]) < (int)sizeof(path) &&
		    file_slurp(path, CONFIG_MOST, &text, &size) == 0)
			return text;
	}
	return NULL;
}
