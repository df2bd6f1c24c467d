/* SPDX-License-Identifier: Apache-2.0 */
/* An auditor of the loader (rtld-audit(7)): the guest is not found, and the driver is in its place.
 */
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

exported unsigned la_version(unsigned version);
exported char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag);

unsigned la_version(unsigned version)
{
	return version;
}

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
	static char path[4096];
	const char *driver = getenv("METE_DRIVER");

	(void)cookie;
	(void)flag;
	if (strstr(name, "libmete.so"))
		return NULL;
	if (!driver || !strstr(name, "libcuda.so.1"))
		return (char *)(uintptr_t)name;
	snprintf(path, sizeof(path), "%s/libcuda.so.1", driver);
	return path;
}
