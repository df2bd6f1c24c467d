/* SPDX-License-Identifier: Apache-2.0 */
/* Which options of `mete replay` belong to what is replayed: one of another kind would be ignored.
 */
#include "cli/replay_modes.h"

#include <string.h>

static const struct {
	const char *option;
	bool placement, time, memory;
} belongs[] = {
	{"lists", .placement = true},
	{"policies", .placement = true},
	{"overcommit", .placement = true},
	{"departures", .placement = true},
	{"load", .placement = true},
	{"lifetimes", .placement = true},
	{"warm_up", .placement = true},
	{"stated", .placement = true},
	{"recorded", .placement = true},
	{"ties", .placement = true},
	{"no_host_memory", .placement = true},
	{"seeds", .placement = true, .time = true},
	{"tenants", .time = true},
	{"request", .time = true},
	{"length", .time = true, .memory = true},
	{"delay", .time = true, .memory = true},
	{"pods", .time = true, .memory = true},
	{"device", .memory = true},
	{"store", .memory = true},
	{"link", .memory = true},
	{"turn", .memory = true},
	{"cost", .memory = true},
	{"managed", .memory = true},
};

int replay_modes_check(const struct cli_call *call, struct fault *why)
{
	bool placement = cli_value(call, "placement"), time = cli_value(call, "time");
	bool memory = cli_value(call, "memory");

	if (placement + time + memory != 1)
		return fault_set(
			why, -EINVAL,
			"say what to replay: --placement, --time or --memory, and one of them");
	for (size_t i = 0; i < ARRAY_SIZE(belongs); i++) {
		if (!cli_value(call, belongs[i].option) || (belongs[i].placement && placement) ||
		    (belongs[i].time && time) || (belongs[i].memory && memory))
			continue;
		return fault_set(why, -EINVAL, "--%s means nothing with --%s: mete replay --help",
				 cli_dashed(belongs[i].option).text,
				 placement ? "placement"
				 : time	   ? "time"
					   : "memory");
	}
	return 0;
}
