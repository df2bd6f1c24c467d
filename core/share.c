/* SPDX-License-Identifier: Apache-2.0 */
#include "core/share.h"

#include <string.h>

enum {
	MILLI_ALL = 1000,
	FRACTION_DIGITS = 9,
	WEIGHT_MAX = 10000,
	WEIGHT_USUAL = 100,
};

static const uint64_t fraction_one = 1000000000; /* 10 to the power of FRACTION_DIGITS */
static const uint64_t second_ns = 1000000000;
static const uint64_t wait_max_ns = 3600 * 1000000000ull;

/* A decimal number that is read exactly: whole + fraction / fraction_one. */
struct number {
	uint64_t whole, fraction;
};

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int read_fraction(const char **at, struct number *ret)
{
	uint64_t scale = fraction_one / 10;
	const char *p = *at;

	if (!is_digit(*p))
		return SHARE_NONSENSE;
	for (; is_digit(*p); p++, scale /= 10) {
		if (scale == 0)
			return SHARE_NONSENSE;
		ret->fraction += (uint64_t)(*p - '0') * scale;
	}
	*at = p;
	return 0;
}

/* Reads the number at the beginning and leaves *at behind it. No blanks, no exponent, no hex. */
static int read_number(const char **at, struct number *ret)
{
	const char *p = *at;

	*ret = (struct number){0, 0};
	if (*p == 0)
		return SHARE_EMPTY;
	if (*p == '-')
		return SHARE_NEGATIVE;
	if (!is_digit(*p))
		return SHARE_NONSENSE;
	for (; is_digit(*p); p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (ret->whole > (UINT64_MAX - digit) / 10)
			return SHARE_LARGE;
		ret->whole = ret->whole * 10 + digit;
	}
	*at = p;
	if (*p != '.')
		return 0;
	(*at)++;
	return read_fraction(at, ret);
}

/* number * unit, rounded down; SHARE_LARGE where it does not fit. unit <= 2^44. */
static int scale_number(const struct number *number, uint64_t unit, uint64_t *ret)
{
	uint64_t high = number->fraction >> 16, low = number->fraction & 0xffff, part;

	if (number->whole > UINT64_MAX / unit)
		return SHARE_LARGE;
	/* fraction * unit may need 74 bits: multiplied in two pieces, exact but for the remainder
	 * of the high one, which is carried over. */
	part = (high * unit) / fraction_one;
	part = (part << 16) + ((((high * unit) % fraction_one) << 16) + low * unit) / fraction_one;
	if (number->whole * unit > UINT64_MAX - part)
		return SHARE_LARGE;
	*ret = number->whole * unit + part;
	return 0;
}

static int same_word(const char *a, const char *b)
{
	for (;; a++, b++) {
		char lower = *a >= 'A' && *a <= 'Z' ? (char)(*a - 'A' + 'a') : *a;

		if (lower != *b)
			return 0;
		if (!lower)
			return 1;
	}
}

static int find_unit(const char *text, uint64_t *ret_unit)
{
	static const struct {
		const char *name;
		uint32_t shift;
	} units[] = {
		{"b", 0},   {"ki", 10},	 {"kib", 10}, {"mi", 20},  {"mib", 20},
		{"gi", 30}, {"gib", 30}, {"ti", 40},  {"tib", 40},
	};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (same_word(text, units[i].name)) {
			*ret_unit = 1ull << units[i].shift;
			return 0;
		}
	}
	return SHARE_UNIT;
}

/* A share of a whole: "25%", "12.5%" or "250m". Rounded down to thousandths. */
static int read_milli(const struct number *number, const char *unit, uint32_t *ret_milli)
{
	uint64_t milli;

	if (strcmp(unit, "%") == 0) {
		if (number->whole > 100 || (number->whole == 100 && number->fraction))
			return SHARE_LARGE;
		milli = number->whole * 10 + number->fraction / (fraction_one / 10);
	} else if (strcmp(unit, "m") == 0) {
		if (number->fraction)
			return SHARE_NONSENSE;
		if (number->whole > MILLI_ALL)
			return SHARE_LARGE;
		milli = number->whole;
	} else {
		return SHARE_UNIT;
	}
	*ret_milli = (uint32_t)milli;
	return 0;
}

int share_parse_amount(const char *text, struct share_amount *ret_amount)
{
	struct share_amount amount = {0, 0};
	struct number number;
	uint64_t unit;
	int r = read_number(&text, &number);

	if (r != 0)
		return r;
	r = read_milli(&number, text, &amount.milli);
	if (r == SHARE_UNIT) {
		r = find_unit(text, &unit);
		if (r == 0)
			r = scale_number(&number, unit, &amount.bytes);
	}
	if (r != 0)
		return r;
	if (!amount.bytes && !amount.milli)
		return SHARE_ZERO;
	*ret_amount = amount;
	return 0;
}

int share_parse_duration(const char *text, uint64_t *ret_ns)
{
	struct number number;
	uint64_t unit, ns;
	int r = read_number(&text, &number);

	if (r != 0)
		return r;
	if (strcmp(text, "ms") == 0)
		unit = second_ns / 1000;
	else if (strcmp(text, "s") == 0 || (!*text && !number.whole && !number.fraction))
		unit = second_ns;
	else if (strcmp(text, "m") == 0)
		unit = 60 * second_ns;
	else if (strcmp(text, "h") == 0)
		unit = 3600 * second_ns;
	else
		return SHARE_UNIT;
	r = scale_number(&number, unit, &ns);
	if (r == 0 && ns > wait_max_ns)
		r = SHARE_LARGE;
	if (r == 0)
		*ret_ns = ns;
	return r;
}

int share_bytes(const struct share_amount *amount, uint64_t device_bytes, uint64_t *ret_bytes)
{
	uint64_t bytes = amount->bytes;

	if (amount->milli) {
		/* Divided first, so that no product overflows; the remainder's part is added. */
		bytes = device_bytes / MILLI_ALL * amount->milli +
			device_bytes % MILLI_ALL * amount->milli / MILLI_ALL;
	}
	if (bytes > device_bytes)
		return SHARE_LARGE;
	if (bytes == 0)
		return SHARE_ZERO;
	*ret_bytes = bytes;
	return 0;
}

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

static int set_amount(struct share *share, const char *value)
{
	return share_parse_amount(value, &share->memory);
}

static int set_swap(struct share *share, const char *value)
{
	static const char *const words[] = {"off", "auto"};

	return pick_word(value, words, ARRAY_SIZE(words), &share->swap);
}

static int set_weight(struct share *share, const char *value)
{
	struct number number;
	int r = read_number(&value, &number);

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

static int parse_part(const char *value, uint32_t *ret_milli)
{
	struct number number;
	int r = read_number(&value, &number);

	return r != 0 ? r : read_milli(&number, value, ret_milli);
}

static int set_part(struct share *share, const char *value)
{
	uint32_t milli;
	int r = parse_part(value, &milli);

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
	int r = parse_part(value, &milli);

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
	struct number part, whole;
	int r = read_number(&value, &part);

	if (r != 0)
		return r;
	if (*value != '/' || part.fraction)
		return SHARE_NONSENSE;
	value++;
	r = read_number(&value, &whole);
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
	share->weighted = 0;
	share->guarantee_milli = milli;
	share->cap_milli = is_fixed ? milli : MILLI_ALL;
	share->equal = index;
	return 0;
}

static int set_duration(struct share *share, const char *value)
{
	return share_parse_duration(value, &share->wait_ns);
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

static int set_strict(struct share *share, const char *value)
{
	static const char *const words[] = {"no", "yes"};

	return pick_word(value, words, ARRAY_SIZE(words), &share->strict);
}

static const struct {
	const char *key, *normally, *accepted;
	int (*set)(struct share *share, const char *value);
} fields[] = {
#define SHARE(key, kind, normally, accepted) {#key, normally, accepted, set_##kind},
#include "core/share.def"
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
		return "amounts to nothing";
	case SHARE_UNIT:
		return "has no unit, or one that is not known here";
	case SHARE_LARGE:
		return "is too much";
	case SHARE_KEY:
		return "is no field of a share";
	case SHARE_ORDER:
		return "would put the cap below the guarantee";
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

const char *share_key(uint32_t index)
{
	return index < ARRAY_SIZE(fields) ? fields[index].key : NULL;
}
