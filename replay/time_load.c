/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/time_load.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MOST = 1024, COPIES_MOST = 4096, PROCESSES_MOST = 64 };

void time_load_init(struct time_load *load)
{
	struct share share;

	share_init(&share);
	*load = (struct time_load){.kernel_ns = 100000, .processes = 1, .kind = TIME_BUSY};
	turns_share_of(&share, &load->share);
}

int time_load_duration(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *end;
	double value = strtod(text, &end);

	if (end == text || !(value >= 0))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(end, units[i].unit) == 0 && value * units[i].ns < 1e16) {
			*ret_ns = (uint64_t)(value * units[i].ns + 0.5);
			return 0;
		}
	}
	return -EINVAL;
}

/* "20/s" */
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

static int parse_count(const char *text, uint32_t highest, uint32_t *ret)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || !value || value > highest)
		return -EINVAL;
	*ret = (uint32_t)value;
	return 0;
}

/* What is not of a share; 1: it is. */
static int parse_own(const char *key, char *value, struct time_load *load)
{
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
		return parse_count(value, PROCESSES_MOST, &load->processes);
	if (strcmp(key, "load") == 0)
		return parse_kind(value, load);
	return 1;
}

static int parse_word(char *word, struct time_load *load, struct share *share, struct fault *why)
{
	char whole[128], *value = strchr(word, '=');
	int r;

	snprintf(whole, sizeof(whole), "%s", word);
	if (!value)
		return fault_set(why, -EINVAL, "'%s': FIELD=VALUE is accepted", whole);
	*value++ = 0;
	r = parse_own(word, value, load);
	if (r < 0)
		return fault_set(why, -EINVAL,
				 "'%s': accepted are kernel=100us, processes=3, load=busy, "
				 "load=poisson:20/s:5ms, load=pulse:30ms:50ms, join=1s, leave=2s",
				 whole);
	if (r == 0)
		return 0;
	r = share_set(share, word, value);
	if (r != 0)
		return fault_set(why, -EINVAL, "'%s' %s%s%s", whole, share_problem(r),
				 share_accepts(word) ? "; accepted: " : "",
				 share_accepts(word) ? share_accepts(word) : "");
	return 0;
}

static int check(const struct time_load *load, struct fault *why)
{
	if (!load->kernel_ns)
		return fault_set(why, -EINVAL, "kernel: 0 is too short");
	if (load->kind != TIME_BUSY && (!load->work_ns || !load->pause_ns))
		return fault_set(why, -EINVAL, "load: a request takes time, and so does a pause");
	if (load->leave_ns && load->leave_ns <= load->join_ns)
		return fault_set(why, -EINVAL, "leave: it must come first");
	return 0;
}

int time_load_parse(const char *text, struct time_load *ret_load, uint32_t *ret_count,
		    struct fault *why)
{
	char words[WORDS_MOST], *state = NULL;
	struct time_load load;
	struct share share;
	uint32_t count = 1;

	if (strlen(text) >= sizeof(words))
		return fault_set(why, -EINVAL, "a tenant of more than %d characters", WORDS_MOST);
	snprintf(words, sizeof(words), "%s", text);
	time_load_init(&load);
	share_init(&share);
	for (char *word = strtok_r(words, " \t\n", &state); word;
	     word = strtok_r(NULL, " \t\n", &state)) {
		size_t n = strlen(word);
		int r = 1;

		if (word[n - 1] == 'x' && strspn(word, "0123456789") == n - 1) {
			word[n - 1] = 0;
			r = parse_count(word, COPIES_MOST, &count);
			if (r < 0)
				return fault_set(why, -EINVAL, "'%sx': 1x to %dx", word,
						 COPIES_MOST);
			continue;
		}
		r = parse_word(word, &load, &share, why);
		if (r < 0)
			return r;
	}
	turns_share_of(&share, &load.share);
	*ret_load = load;
	*ret_count = count;
	return check(&load, why);
}
