/* SPDX-License-Identifier: Apache-2.0 */
#include "core/share/share.h"

#include <string.h>

#include "core/share/share_parse.h"

enum {
	MILLI_ALL = 1000,
	WEIGHT_MAX = 10000,
	WEIGHT_USUAL = 100,
};

static const uint64_t park_usual_ns = 300 * 1000000000ull;

static int pick_word(const char *value, const char *const *words, uint32_t count, uint32_t *ret)
{
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(value, words[i]) == 0) {
			*ret = i;
			return 0;
		}
	}
	return SHARE_NONSENSE;
}

/* The first word means false. */
static int pick_either(const char *value, const char *const words[2], bool *ret)
{
	uint32_t index;
	int r = pick_word(value, words, 2, &index);

	if (r == 0)
		*ret = index == 1;
	return r;
}

static int set_amount(struct share *share, const char *value)
{
	return share_parse_amount(value, &share->memory);
}

static int set_swap(struct share *share, const char *value)
{
	static const char *const words[] = {"off", "auto"};

	return pick_either(value, words, &share->swap);
}

static int set_oversize(struct share *share, const char *value)
{
	static const char *const words[] = {"refuse", "managed"};

	return pick_either(value, words, &share->oversize);
}

static int set_weight(struct share *share, const char *value)
{
	struct share_number number;
	int r = share_read_number(&value, &number);

	if (r != 0)
		return r;
	if (*value || number.fraction)
		return SHARE_NONSENSE;
	if (!number.whole)
		return SHARE_ZERO;
	if (number.whole > WEIGHT_MAX)
		return SHARE_LARGE;
	share->weight = (uint32_t)number.whole;
	return 0;
}

static int set_part(struct share *share, const char *value)
{
	uint32_t milli;
	int r = share_parse_part(value, MILLI_ALL, &milli);

	if (r != 0)
		return r;
	if (milli > share->cap_milli)
		return SHARE_ORDER;
	share->guarantee_milli = milli;
	return 0;
}

static int set_cap(struct share *share, const char *value)
{
	uint32_t milli;
	int r = share_parse_part(value, MILLI_ALL, &milli);

	if (r != 0)
		return r;
	if (!milli)
		return SHARE_ZERO;
	if (milli < share->guarantee_milli)
		return SHARE_ORDER;
	share->cap_milli = milli;
	return 0;
}

static int set_class(struct share *share, const char *value)
{
	static const char *const words[] = {"interactive", "standard", "batch"};
	uint32_t index;
	int r = pick_word(value, words, ARRAY_SIZE(words), &index);

	if (r == 0)
		share->class = (enum share_class)index;
	return r;
}

static int set_escalate(struct share *share, const char *value)
{
	static const char *const words[] = {"report", "suspend", "kill"};
	uint32_t index;
	int r = pick_word(value, words, ARRAY_SIZE(words), &index);

	if (r == 0)
		share->escalate = (enum share_escalate)index;
	return r;
}

/* "2/8" */
static int parse_slots(const char *value, uint32_t *ret_milli)
{
	struct share_number part, whole;
	int r = share_read_number(&value, &part);

	if (r != 0)
		return r;
	if (*value != '/' || part.fraction)
		return SHARE_NONSENSE;
	value++;
	r = share_read_number(&value, &whole);
	if (r != 0)
		return r;
	if (*value || whole.fraction)
		return SHARE_NONSENSE;
	if (!part.whole || !whole.whole)
		return SHARE_ZERO;
	if (part.whole > whole.whole || whole.whole > MILLI_ALL)
		return SHARE_LARGE;
	*ret_milli = (uint32_t)(part.whole * MILLI_ALL / whole.whole);
	return 0;
}

static int set_mode(struct share *share, const char *value)
{
	static const char fixed[] = "fixed:";
	uint32_t milli = 0, index = 0;
	int is_fixed = strncmp(value, fixed, sizeof(fixed) - 1) == 0;
	static const char *const words[] = {"best-effort", "equal"};
	int r = is_fixed ? parse_slots(value + sizeof(fixed) - 1, &milli)
			 : pick_word(value, words, ARRAY_SIZE(words), &index);

	if (r != 0)
		return r;
	share->weight = WEIGHT_USUAL;
	share->weighted = false;
	share->guarantee_milli = milli;
	share->cap_milli = is_fixed ? milli : MILLI_ALL;
	share->equal = index;
	return 0;
}

static int set_duration(struct share *share, const char *value)
{
	return share_parse_duration(value, &share->wait_ns);
}

/* "keep", "park", "park:10m". */
static int set_idle(struct share *share, const char *value)
{
	uint64_t ns = park_usual_ns;
	int r;

	if (strcmp(value, "keep") == 0) {
		share->park_ns = 0;
		return 0;
	}
	if (strncmp(value, "park", 4) != 0 || (value[4] && value[4] != ':'))
		return SHARE_NONSENSE;
	r = value[4] ? share_parse_duration(value + 5, &ns) : 0;
	if (r == 0 && !ns)
		return SHARE_ZERO;
	if (r == 0)
		share->park_ns = ns;
	return r;
}

static int set_loss(struct share *share, const char *value)
{
	static const char *const words[] = {"continue", "block", "fail"};
	uint32_t index;
	int r = pick_word(value, words, ARRAY_SIZE(words), &index);

	if (r == 0)
		share->on_daemon_loss = (enum share_loss)index;
	return r;
}

static int set_unannounced(struct share *share, const char *value)
{
	static const char *const words[] = {"report", "kill"};

	return pick_either(value, words, &share->kill_unannounced);
}

static int set_notices(struct share *share, const char *value)
{
	static const char *const words[] = {"on", "off"};

	return pick_either(value, words, &share->quiet);
}

static int set_strict(struct share *share, const char *value)
{
	static const char *const words[] = {"no", "yes"};

	return pick_either(value, words, &share->strict);
}

static const struct {
	const char *key, *normally, *accepted;
	int (*set)(struct share *share, const char *value);
} fields[] = {
#define SHARE(key, kind, normally, accepted) {#key, normally, accepted, set_##kind},
#include "core/share/share.def"
#undef SHARE
};

void share_init(struct share *share)
{
	/* The cap first: the others are checked against it. */
	*share = (struct share){.cap_milli = MILLI_ALL};
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		best_effort(fields[i].set(share, fields[i].normally));
}

int share_set(struct share *share, const char *key, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		int r;

		if (strcmp(key, fields[i].key) != 0)
			continue;
		r = fields[i].set(share, *value ? value : fields[i].normally);
		if (r == 0 && fields[i].set == set_weight)
			share->weighted = *value != '\0';
		return r;
	}
	return SHARE_KEY;
}

int share_includes(const char *key, const char *other)
{
	return strcmp(key, "mode") == 0 &&
	       (strcmp(other, "weight") == 0 || strcmp(other, "guarantee") == 0 ||
		strcmp(other, "cap") == 0);
}

bool share_lacks_unit(int outcome)
{
	return outcome == SHARE_UNIT || outcome == SHARE_BARE;
}

const char *share_problem(int outcome)
{
	switch (outcome) {
	case SHARE_EMPTY:
		return "is empty";
	case SHARE_NONSENSE:
		return "is not understood";
	case SHARE_NEGATIVE:
		return "is negative";
	case SHARE_ZERO:
		return "is zero";
	case SHARE_UNIT:
		return "has no unit, or one that is not known here";
	case SHARE_BARE:
		return "has no unit (a number alone is bytes, 1048576 or more)";
	case SHARE_LARGE:
		return "is too much";
	case SHARE_KEY:
		return "is not a field of a share";
	case SHARE_THOUSANDTHS:
		return "is not how a part is written: write 50% or 500/1000";
	case SHARE_MILLI:
		return "is mebibytes to some and thousandths to others: write M for mebibytes, or "
		       "a fraction such as 250/1000";
	case SHARE_ORDER:
		return "would leave the guarantee above the cap";
	default:
		return "is not accepted";
	}
}

const char *share_accepts(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (strcmp(key, fields[i].key) == 0)
			return fields[i].accepted;
	}
	return NULL;
}

const char *share_default(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (strcmp(key, fields[i].key) == 0)
			return fields[i].normally;
	}
	return "";
}

const char *share_key(uint32_t index)
{
	return index < ARRAY_SIZE(fields) ? fields[index].key : NULL;
}

uint32_t share_index(const char *key)
{
	uint32_t i = 0;

	while (i < ARRAY_SIZE(fields) && strcmp(fields[i].key, key) != 0)
		i++;
	return i;
}

void share_keys(char *text, size_t size)
{
	char *const end = text + size;

	for (uint32_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *parts[] = {i ? ", " : "", fields[i].key};

		for (uint32_t n = 0; n < ARRAY_SIZE(parts); n++)
			for (const char *at = parts[n]; *at && text + 1 < end; at++)
				*text++ = *at;
	}
	*text = '\0';
}
