/* SPDX-License-Identifier: Apache-2.0 */
/* Any /proc/PID/cgroup (a pod's programs name cgroups of their own): the UID of a pod that stands
 * there, in the API server's spelling, or none. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/strangers_pod.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

/* With underscores as dashes, as systemd names cgroups. */
static bool stands_in(const char *uid, char *text)
{
	for (char *c = text; *c; c++)
		if (*c == '_')
			*c = '-';
	return strstr(text, uid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(free) char *text = malloc(size + 1);
	char uid[STRANGERS_UID], again[STRANGERS_UID], path[STRANGERS_UID + 16];

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (strangers_pod(text, uid) != 0)
		return 0;
	must(strspn(uid, "0123456789abcdef-") == strlen(uid) && stands_in(uid, text));
	if (strchr(uid, '-')) {
		must(strlen(uid) == STRANGERS_UID - 1);
		must(uid[8] == '-' && uid[13] == '-' && uid[18] == '-' && uid[23] == '-');
	} else {
		must(strlen(uid) == 32); /* of a static pod */
	}
	snprintf(path, sizeof(path), "0::/kubepods/pod%s", uid);
	must(strangers_pod(path, again) == 0 && strcmp(uid, again) == 0);
	return 0;
}
