/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/links.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NVLINKS = 18 };

struct level {
	const char *word;
	uint8_t level;
};

static const struct level levels[] = {
	{"PIX", 10}, {"PXB", 20}, {"PHB", 30}, {"NODE", 40}, {"SYS", 50},
};

static int refuse(const char *at, unsigned devices, struct fault *why)
{
	return fault_set(why, -EINVAL,
			 "METE_SIM_LINKS: '%.*s' is not A-B=LINK: two of the %u devices, and PIX, "
			 "PXB, PHB, NODE, SYS or NV1 to NV%d, or both with a + between them",
			 (int)strcspn(at, ","), at, devices, MOST_NVLINKS);
}

static bool read_device(const char **at, unsigned devices, unsigned *ret)
{
	char *end;
	unsigned long number = strtoul(*at, &end, 10);

	if (end == *at || **at < '0' || **at > '9' || number >= devices)
		return false;
	*at = end;
	*ret = (unsigned)number;
	return true;
}

static bool read_word(const char **at, struct links *links, unsigned a, unsigned b)
{
	size_t length = strcspn(*at, "+,");

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		if (strlen(levels[i].word) == length && strncmp(*at, levels[i].word, length) == 0) {
			links->level[a][b] = links->level[b][a] = levels[i].level;
			*at += length;
			return true;
		}
	if (strncmp(*at, "NV", 2) == 0) {
		char *end;
		unsigned long count = strtoul(*at + 2, &end, 10);

		if (end != *at + length || !count || count > MOST_NVLINKS)
			return false;
		links->nvlinks[a][b] = links->nvlinks[b][a] = (uint8_t)count;
		*at = end;
		return true;
	}
	return false;
}

static bool read_pair(const char **at, unsigned devices, struct links *links)
{
	unsigned a, b;

	if (!read_device(at, devices, &a) || *(*at)++ != '-' || !read_device(at, devices, &b) ||
	    a == b || *(*at)++ != '=')
		return false;
	while (read_word(at, links, a, b)) {
		if (**at != '+')
			return **at == ',' || !**at;
		(*at)++;
	}
	return false;
}

int links_read(const char *text, unsigned devices, struct links *ret_links, struct fault *why)
{
	const char *at = text ? text : "";

	*ret_links = (struct links){.given = *at != '\0'};
	memset(ret_links->level, LINKS_LEVEL_USUAL, sizeof(ret_links->level));
	while (*at) {
		const char *pair = at;

		if (!read_pair(&at, devices, ret_links))
			return refuse(pair, devices, why);
		at += *at == ',';
	}
	return 0;
}
