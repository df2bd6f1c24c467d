/* SPDX-License-Identifier: Apache-2.0 */
/* A process that says that it is another program: its code begins where execve() could have put it.
 * The kernel asks no privilege for that (prctl(2), PR_SET_MM_MAP). */
#pragma once

#include <linux/prctl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A field of /proc/self/stat, by its number in proc(5). */
static inline uint64_t forge_field(unsigned number)
{
	char line[2048] = "", *at;
	FILE *file = fopen("/proc/self/stat", "re");

	if (file && !fgets(line, sizeof(line), file))
		line[0] = '\0';
	if (file)
		fclose(file);
	at = strrchr(line, ')');
	for (unsigned field = 2; at && field < number; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

/* False: this kernel does not let it. */
static inline bool forge_map(struct prctl_mm_map *map)
{
	return prctl(PR_SET_MM, PR_SET_MM_MAP, map, sizeof(*map), 0) == 0;
}

/* As it is. */
static inline struct prctl_mm_map forge_none(void)
{
	return (struct prctl_mm_map){.start_code = forge_field(26),
				     .end_code = forge_field(27),
				     .start_stack = forge_field(28),
				     .start_data = forge_field(45),
				     .end_data = forge_field(46),
				     .start_brk = forge_field(47),
				     .brk = (uintptr_t)sbrk(0),
				     .arg_start = forge_field(48),
				     .arg_end = forge_field(49),
				     .env_start = forge_field(50),
				     .env_end = forge_field(51),
				     .exe_fd = (uint32_t)-1};
}

static inline bool forge_image(void)
{
	enum { PAGE = 4096 };
	struct prctl_mm_map map = forge_none();

	map.start_code += PAGE;
	map.end_code += PAGE;
	return forge_map(&map);
}

/* What it was called with lies there. */
static inline bool forge_image_called(uintptr_t from, uintptr_t to)
{
	struct prctl_mm_map map = forge_none();

	map.arg_start = from;
	map.arg_end = to;
	return forge_map(&map);
}
