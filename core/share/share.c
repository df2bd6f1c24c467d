/* SPDX-License-Identifier: Apache-2.0 */
#include "core/share/share.h"

#include <string.h>

enum {
	MILLI_ALL = 1000,
	FRACTION_DIGITS = 9,
	BARE_LEAST = 1 << 20, /* bytes without a unit; for smaller numbers the unit was probably
				 forgotten */
	WEIGHT_MAX = 10000,
	WEIGHT_USUAL = 100,
};

static const uint64_t fraction_one = 1000000000; /* 10 to the power of FRACTION_DIGITS */
static const uint64_t park_usual_ns = 300 * 1000000000ull;
static const uint64_t wait_max_ns = 3600 * 1000000000ull;

/* An exact decimal number: whole + fraction / fraction_one. */
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

/* Reads the number at the beginning and moves *at past it. No spaces, no exponent, no hex. */
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

/* number * unit, rounded down; SHARE_LARGE if it does not fit. unit <= 2^47. */
static int scale_number(const struct number *number, uint64_t unit, uint64_t *ret)
{
	uint64_t high = number->fraction >> 16, low = number->fraction & 0xffff, part;

	if (number->whole > UINT64_MAX / unit)
		return SHARE_LARGE;
	/* fraction * unit may need 77 bits. It is multiplied in two pieces; the remainder of the
	 * high piece is carried over, so the result is exact. */
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
		{"b", 0},    {"k", 10},	 {"kb", 10},  {"ki", 10}, {"kib", 10}, {"m", 20},
		{"mb", 20},  {"mi", 20}, {"mib", 20}, {"g", 30},  {"gb", 30},  {"gi", 30},
		{"gib", 30}, {"t", 40},	 {"tb", 40},  {"ti", 40}, {"tib", 40},
	};

	if (strcmp(text, "m") == 0)
		return SHARE_MILLI;
	if (!*text) {
		*ret_unit = 1;
		return 0;
	}

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (same_word(text, units[i].name)) {
			*ret_unit = 1ull << units[i].shift;
			return 0;
		}
	}
	return SHARE_UNIT;
}

/* K of N parts, after the slash: "250/1000", "1/3". */
static int read_parts(const struct number *number, const char *text, uint32_t most_milli,
		      uint64_t *ret_milli)
{
	struct number whole;
	int r = read_number(&text, &whole);

	if (r != 0)
		return r;
	if (*text || whole.fraction || number->fraction)
		return SHARE_NONSENSE;
	if (!whole.whole)
		return SHARE_ZERO;
	if (number->whole > MILLI_ALL * MILLI_ALL || whole.whole > MILLI_ALL ||
	    number->whole * MILLI_ALL > whole.whole * most_milli)
		return SHARE_LARGE;
	*ret_milli = number->whole * MILLI_ALL / whole.whole;
	return 0;
}

/* A part of a whole: "25%", "12.5%", "250/1000". Rounded down to thousandths. */
static int read_milli(const struct number *number, const char *unit, uint32_t most_milli,
		      uint32_t *ret_milli)
{
	uint64_t tenth = fraction_one / 10, milli;
	int r;

	if (strcmp(unit, "%") == 0) {
		if (number->whole > most_milli)
			return SHARE_LARGE;
		milli = number->whole * 10 + number->fraction / tenth;
		if (milli > most_milli || (milli == most_milli && number->fraction % tenth))
			return SHARE_LARGE;
	} else if (*unit == '/') {
		r = read_parts(number, unit + 1, most_milli, &milli);
		if (r != 0)
			return r;
	} else {
		return strcmp(unit, "m") == 0 ? SHARE_THOUSANDTHS : SHARE_UNIT;
	}
	*ret_milli = (uint32_t)milli;
	return 0;
}

int share_parse_part(const char *text, uint32_t most_milli, uint32_t *ret_milli)
{
	uint64_t thousandth = fraction_one / MILLI_ALL;
	const char *unit = text;
	struct number number;
	int r = read_number(&unit, &number);

	if (r != 0)
		return r;
	/* A part of 1 is known by its point: "5" may be 5 %, or five times as much. */
	if (*unit || (!strchr(text, '.') && number.whole))
		return read_milli(&number, unit, most_milli, ret_milli);
	if (number.whole > most_milli / MILLI_ALL)
		return SHARE_LARGE;
	number.fraction += number.whole * fraction_one;
	if (number.fraction > most_milli * thousandth)
		return SHARE_LARGE;
	*ret_milli = (uint32_t)(number.fraction / thousandth);
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
	r = read_milli(&number, text, MILLI_ALL, &amount.milli);
	if (r == SHARE_UNIT || r == SHARE_THOUSANDTHS) {
		r = find_unit(text, &unit);
		if (r == 0)
			r = scale_number(&number, unit, &amount.bytes);
		/* "0.25" is a quarter to people, not zero bytes. */
		if (r == 0 && !*text &&
		    (number.fraction || (amount.bytes && amount.bytes < BARE_LEAST)))
			r = SHARE_BARE;
	}
	if (r != 0)
		return r;
	if (!amount.bytes && !amount.milli)
		return SHARE_ZERO;
	*ret_amount = amount;
	return 0;
}

int share_parse_time(const char *text, uint64_t most_ns, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"ns", 1},
		{"us", 1000},
		{"ms", 1000000},
		{"s", 1000000000},
		{"m", 60 * 1000000000ull},
		{"h", 3600 * 1000000000ull},
		{"d", 24 * 3600 * 1000000000ull},
	};
	struct number number;
	uint64_t ns;
	int r = read_number(&text, &number);

	if (r != 0)
		return r;
	if (!*text && !number.whole && !number.fraction)
		text = "s";
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(text, units[i].name) != 0)
			continue;
		r = scale_number(&number, units[i].ns, &ns);
		if (r == 0 && ns > most_ns)
			r = SHARE_LARGE;
		if (r == 0)
			*ret_ns = ns;
		return r;
	}
	return SHARE_UNIT;
}

int share_parse_duration(const char *text, uint64_t *ret_ns)
{
	return share_parse_time(text, wait_max_ns, ret_ns);
}

int share_bytes(const struct share_amount *amount, uint64_t device_bytes, uint64_t *ret_bytes)
{
	uint64_t bytes = amount->bytes;

	if (amount->milli) {
		/* Divides first, so that no product overflows, and adds the remainder's part. */
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

static int set_oversize(struct share *share, const char *value)
{
	static const char *const words[] = {"refuse", "managed"};

	return pick_word(value, words, ARRAY_SIZE(words), &share->oversize);
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

	return pick_word(value, words, ARRAY_SIZE(words), &share->kill_unannounced);
}

static int set_notices(struct share *share, const char *value)
{
	static const char *const words[] = {"on", "off"};

	return pick_word(value, words, ARRAY_SIZE(words), &share->quiet);
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
		return "has no unit, which only whole bytes from 1048576 on may lack";
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
