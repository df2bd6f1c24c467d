/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nvml_library.h"

#include <dlfcn.h>
#include <stdio.h>

void nvml_library_path(const char *folder, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s%slibnvidia-ml.so.1", folder ? folder : "",
		 folder ? "/" : "");
}

int nvml_library_open(const char *path, void **ret_library, struct fault *why)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return fault_set(why, -ENOENT, "no NVIDIA driver here: %s", dlerror());
	*ret_library = library;
	return 0;
}
