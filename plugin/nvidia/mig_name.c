/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/nvidia/mig_name.h"

#include <stdio.h>
#include <string.h>

const char *mig_name_profile(const char *model)
{
	const char *at = strstr(model, " MIG ");

	return at && at[5] ? at + 5 : NULL;
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

bool mig_name_resource(const char *model, char ret_name[MIG_NAME])
{
	const char *profile = mig_name_profile(model);
	size_t n = (size_t)snprintf(ret_name, MIG_NAME, "mig-");

	/* A part of the processors is "1c.", before the instance that it is of. */
	if (!profile || strstr(profile, "c."))
		return false;
	for (; *profile && n < MIG_NAME - 1; profile++) {
		char c = *profile == '+' ? '.' : *profile;

		if (is_name(c))
			ret_name[n++] = c;
	}
	ret_name[n] = '\0';
	return n > strlen("mig-");
}
