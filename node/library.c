/* SPDX-License-Identifier: Apache-2.0 */
#include "node/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>

#include "base/parts.h"

int library_load(const char *const places[], const char *symbol, uint32_t version,
		 const void **ret_entry, struct fault *why)
{
	const uint32_t *entry;
	char path[PATH_MAX];
	void *library;
	int r = parts_find(places, path, why);

	if (r < 0)
		return r;
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return fault_set(why, -ELIBACC, "%s", dlerror());
	/* It stays until the program ends: its libraries have threads and handlers of their own. */
	entry = dlsym(library, symbol);
	if (!entry || *entry != version)
		return fault_set(why, -ELIBBAD, "%s: not the version of this meted", path);
	*ret_entry = entry;
	return 0;
}
