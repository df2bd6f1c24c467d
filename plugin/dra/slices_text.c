/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of ResourceSlices. */
#include <string.h>

#include "plugin/dra/slices.h"
#include "plugin/kubelet/ids.h"

void slices_pool_name(const char *node, char ret_name[SLICES_POOL])
{
	static const char tail[] = "-mete";
	int most = SLICES_SHORT - (int)strlen(tail);
	char hash[20] = "";

	/* Names of two nodes may differ anywhere: pools of one name would be one to kube-scheduler,
	 * and slices of one name overwrite each other. */
	if ((int)strlen(node) > most) {
		snprintf(hash, sizeof(hash), "-%016llx", (unsigned long long)ids_hash(node));
		most -= (int)strlen(hash);
		while (node[most - 1] == '-' || node[most - 1] == '.')
			most--;
	}
	snprintf(ret_name, SLICES_POOL, "%.*s%s%s", most, node, hash, tail);
}

static char label_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
}

void slices_device_name(const char *uuid, char ret_name[SLICES_NAME])
{
	static const char plus[] = "-plus-";
	size_t n = 0;

	for (; *uuid && n < SLICES_NAME - 1; uuid++) {
		if (*uuid != '+')
			ret_name[n++] = label_of(*uuid);
		else /* profiles may differ by it alone: 1g.24gb+me, 1g.24gb-me */
			for (const char *c = plus; *c && n < SLICES_NAME - 1; c++)
				ret_name[n++] = *c;
	}
	ret_name[n] = '\0';
}

uint64_t slices_memory(uint64_t bytes)
{
	return bytes >> 20 << 20;
}

const char *slices_architecture(int major, int minor)
{
	static const struct {
		int major, minor;
		const char *name;
	} from[] = {
		{10, 0, "Blackwell"}, {9, 0, "Hopper"}, {8, 9, "Ada Lovelace"}, {8, 0, "Ampere"},
		{7, 5, "Turing"},     {7, 0, "Volta"},	{6, 0, "Pascal"},	{5, 0, "Maxwell"},
	};

	/* What is newer than this table has a name that it does not know. */
	for (size_t i = 0; major <= 12 && i < ARRAY_SIZE(from); i++)
		if (major > from[i].major || (major == from[i].major && minor >= from[i].minor))
			return from[i].name;
	return "";
}

void slices_version(const char *text, char ret_version[SLICES_VERSION])
{
	unsigned part[3] = {0};
	int used = 0;

	*ret_version = '\0';
	if (text[strspn(text, "0123456789.")] || strlen(text) > 20)
		return;
	if (sscanf(text, "%9u.%9u%n", &part[0], &part[1], &used) != 2)
		return;
	if (text[used] && sscanf(text, "%9u.%9u.%9u%n", &part[0], &part[1], &part[2], &used) != 3)
		return;
	if (!text[used])
		snprintf(ret_version, SLICES_VERSION, "%u.%u.%u", part[0], part[1], part[2]);
}
