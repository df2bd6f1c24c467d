/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/memory_load.h"

#include <stdlib.h>
#include <string.h>

#include "replay/load_words.h"
#include "replay/time_load.h"

enum { COPIES_MOST = 256 };

void memory_load_init(struct memory_load *load)
{
	struct share share;

	share_init(&share);
	*load = (struct memory_load){
		.set_bytes = 1ull << 30,
		.work_ns = 60000000000,
		.burst_ns = 60000000000,
		.kernel_ns = 1000000,
	};
	turns_share_of(&share, &load->share);
}

int memory_load_bytes(const char *text, uint64_t *ret_bytes)
{
	struct share_amount amount = {0};
	int r = share_parse_amount(text, &amount);

	/* Zero is accepted: no store, or no memory at all. */
	if ((r != 0 && r != SHARE_ZERO) || amount.milli || amount.bytes >= 1ull << 50)
		return -EINVAL;
	*ret_bytes = amount.bytes;
	return 0;
}

/* Parses "job:300s:10s:10s". */
static int parse_job(char *text, struct memory_load *load)
{
	uint64_t *const fields[] = {&load->work_ns, &load->burst_ns, &load->pause_ns};
	char *state = NULL, *word = strtok_r(text, ":", &state);

	if (!word || strcmp(word, "job") != 0)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		word = strtok_r(NULL, ":", &state);
		if (!word || time_load_duration(word, fields[i]) < 0)
			return -EINVAL;
	}
	return strtok_r(NULL, ":", &state) || !load->work_ns || !load->burst_ns ? -EINVAL : 0;
}

static int parse_own(void *tenant, const char *key, char *value)
{
	struct memory_load *load = tenant;

	if (strcmp(key, "name") == 0) {
		snprintf(load->name, sizeof(load->name), "%s", value);
		return 0;
	}
	if (strcmp(key, "set") == 0)
		return memory_load_bytes(value, &load->set_bytes);
	if (strcmp(key, "kernel") == 0)
		return time_load_duration(value, &load->kernel_ns);
	if (strcmp(key, "join") == 0)
		return time_load_duration(value, &load->join_ns);
	if (strcmp(key, "clean") == 0)
		return share_parse_part(value, 1000, &load->clean_milli) == 0 ? 0 : -EINVAL;
	if (strcmp(key, "load") == 0)
		return parse_job(value, load);
	return 1;
}

int memory_load_parse(const char *text, struct memory_load *ret_load, uint32_t *ret_count,
		      struct fault *why)
{
	static const struct load_words words = {
		.copies_most = COPIES_MOST,
		.own = parse_own,
		.accepted = "set=15.3G, load=job:300s:10s:10s, clean=80%, kernel=1ms, join=1s",
	};
	struct memory_load load;
	int r;

	memory_load_init(&load);
	r = load_words_parse(text, &words, &load, &load.share, ret_count, why);
	if (r < 0)
		return r;
	if (!load.kernel_ns)
		return fault_set(why, -EINVAL, "kernel: 0 is too short");
	*ret_load = load;
	return 0;
}
