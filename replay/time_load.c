/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/time_load.h"

#include <stdlib.h>
#include <string.h>

#include "replay/load_words.h"

enum { COPIES_MOST = 4096, PROCESSES_MOST = 64 };

void time_load_init(struct time_load *load)
{
	struct share share;

	share_init(&share);
	*load = (struct time_load){.kernel_ns = 100000, .processes = 1, .kind = TIME_BUSY};
	turns_share_of(&share, &load->share);
}

int time_load_duration(const char *text, uint64_t *ret_ns)
{
	return share_parse_time(text, TIME_LOAD_MOST, ret_ns) == 0 ? 0 : -EINVAL;
}

/* Parses "20/s". */
static int parse_rate(const char *text, uint64_t *ret_pause_ns)
{
	char *end;
	double rate = strtod(text, &end);

	if (end == text || strcmp(end, "/s") != 0 || !(rate > 1e-6 && rate < 1e7))
		return -EINVAL;
	*ret_pause_ns = (uint64_t)(1e9 / rate + 0.5);
	return 0;
}

static int parse_kind(char *text, struct time_load *load)
{
	char *first = strchr(text, ':'), *second = first ? strchr(first + 1, ':') : NULL;
	int r;

	if (strcmp(text, "busy") == 0) {
		load->kind = TIME_BUSY;
		return 0;
	}
	if (!second)
		return -EINVAL;
	*first++ = *second++ = 0;
	if (strcmp(text, "poisson") == 0) {
		load->kind = TIME_POISSON;
		r = parse_rate(first, &load->pause_ns);
		return r == 0 ? time_load_duration(second, &load->work_ns) : r;
	}
	if (strcmp(text, "pulse") != 0)
		return -EINVAL;
	load->kind = TIME_PULSE;
	r = time_load_duration(first, &load->work_ns);
	return r == 0 ? time_load_duration(second, &load->pause_ns) : r;
}

static int parse_own(void *tenant, const char *key, char *value)
{
	struct time_load *load = tenant;

	if (strcmp(key, "name") == 0) {
		snprintf(load->name, sizeof(load->name), "%s", value);
		return 0;
	}
	if (strcmp(key, "kernel") == 0)
		return time_load_duration(value, &load->kernel_ns);
	if (strcmp(key, "join") == 0)
		return time_load_duration(value, &load->join_ns);
	if (strcmp(key, "leave") == 0)
		return time_load_duration(value, &load->leave_ns);
	if (strcmp(key, "processes") == 0)
		return load_words_count(value, PROCESSES_MOST, &load->processes);
	if (strcmp(key, "load") == 0)
		return parse_kind(value, load);
	return 1;
}

static int check(const struct time_load *load, struct fault *why)
{
	if (!load->kernel_ns)
		return fault_set(why, -EINVAL, "kernel: 0 is too short");
	if (load->kind != TIME_BUSY && (!load->work_ns || !load->pause_ns))
		return fault_set(why, -EINVAL, "load: neither the request nor the pause may be 0");
	if (load->leave_ns && load->leave_ns <= load->join_ns)
		return fault_set(why, -EINVAL, "leave: it must be later than join");
	return 0;
}

int time_load_parse(const char *text, struct time_load *ret_load, uint32_t *ret_count,
		    struct fault *why)
{
	static const struct load_words words = {
		.copies_most = COPIES_MOST,
		.own = parse_own,
		.accepted = "kernel=100us, processes=3, load=busy, load=poisson:20/s:5ms, "
			    "load=pulse:30ms:50ms, join=1s, leave=2s",
	};
	struct time_load load;
	int r;

	time_load_init(&load);
	r = load_words_parse(text, &words, &load, &load.share, ret_count, why);
	if (r < 0)
		return r;
	*ret_load = load;
	return check(&load, why);
}
