/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/strangers_pod.h"

#include <string.h>

#include "base/cgroup.h"

int strangers_pod(const char *cgroup, char ret_uid[STRANGERS_UID])
{
	size_t length;
	const char *uid = cgroup_pod(cgroup, &length);

	if (!uid)
		return -ENOENT;
	memcpy(ret_uid, uid, length);
	ret_uid[length] = '\0';
	for (char *c = ret_uid; *c; c++)
		if (*c == '_')
			*c = '-';
	return 0;
}
