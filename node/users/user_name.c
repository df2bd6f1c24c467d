/* SPDX-License-Identifier: Apache-2.0 */
#include "node/users/user_name.h"

#include <pwd.h>
#include <stdio.h>

#include "base/macros.h"

struct user_name user_name(uid_t uid)
{
	/* Reads the file instead of asking the name service, which may wait for the network. */
	owned(fclose) FILE *users = fopen("/etc/passwd", "re");
	struct user_name name;
	struct passwd *entry;

	snprintf(name.text, sizeof(name.text), "%u", (unsigned)uid);
	while (users && (entry = fgetpwent(users)) != NULL) {
		if (entry->pw_uid != uid || !*entry->pw_name)
			continue;
		snprintf(name.text, sizeof(name.text), "%s", entry->pw_name);
		break;
	}
	return name;
}
