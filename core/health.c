/* SPDX-License-Identifier: Apache-2.0 */
#include "core/health.h"

enum {
	FALLEN_OFF = 79, /* the Xid of a GPU that is gone, */
	DOUBLE_BIT = 48, /* and that of a memory error that was not corrected */
};

static const uint64_t second_ns = 1000000000;

/* It must be quiet for a minute at first, and for an hour at most. After an hour of health it
 * starts again. */
#define QUIET_FIRST_NS (60 * second_ns)
#define FORGOTTEN_NS   (3600 * second_ns)

void health_init(struct health *health, uint64_t now_ns)
{
	*health = (struct health){.quiet_ns = QUIET_FIRST_NS, .well_since_ns = now_ns};
}

/* Another failure while it is down restarts the quiet time. */
static int fall(struct health *health, enum health_cause cause, uint64_t xid, uint64_t now_ns)
{
	bool was_well = health->cause == HEALTH_NONE, was_gone = health_is_gone(health);
	bool same = health->cause == cause && health->xid == xid;

	if (was_well && now_ns - health->well_since_ns >= FORGOTTEN_NS)
		health->quiet_ns = QUIET_FIRST_NS;
	health->quiet_since_ns = now_ns;
	if (was_gone)
		return 0;
	health->cause = cause;
	health->xid = xid;
	if (was_well)
		return HEALTH_FELL;
	if (health_is_gone(health))
		return HEALTH_GONE;
	return same ? 0 : HEALTH_ANOTHER;
}

static bool is_programs(uint64_t xid)
{
	static const uint64_t theirs[] = {13, 31, 43, 45, 68, 109};

	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++)
		if (theirs[i] == xid)
			return true;
	return false;
}

static bool has(const uint64_t *bits, uint64_t xid)
{
	return xid < HEALTH_XIDS && bits[xid / 64] >> xid % 64 & 1;
}

bool health_counts(const struct health_xids *xids, uint64_t xid)
{
	if (xids->all || has(xids->counts, xid))
		return true;
	return !xids->none && !has(xids->ignored, xid) && !is_programs(xid);
}

static bool is_word(const char *word, size_t length, const char *wanted)
{
	size_t i = 0;

	while (i < length && wanted[i] && (word[i] | 0x20) == wanted[i])
		i++;
	return i == length && !wanted[i];
}

/* -1: it is none. */
static int number_of(const char *word, size_t length)
{
	int number = 0;

	for (size_t i = 0; i < length; i++) {
		if (word[i] < '0' || word[i] > '9')
			return -1;
		number = number * 10 + (word[i] - '0');
		if (number >= HEALTH_XIDS)
			return -1;
	}
	return length ? number : -1;
}

static bool add_word(struct health_xids *xids, const char *word, size_t length, bool counts)
{
	uint64_t *bits = counts ? xids->counts : xids->ignored;
	int number = number_of(word, length);

	/* That plugin means all by 0, too. */
	if (is_word(word, length, "all") || is_word(word, length, "xids") || number == 0) {
		*(counts ? &xids->all : &xids->none) = true;
		return true;
	}
	if (number >= 0)
		bits[number / 64] |= UINT64_C(1) << number % 64;
	return number >= 0;
}

/* A block of a file ends with a newline. */
static bool is_between(char c)
{
	return c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool health_xids_add(struct health_xids *xids, const char *list, bool counts)
{
	bool good = true;

	while (*list) {
		size_t length = 0;

		while (list[length] && !is_between(list[length]))
			length++;
		if (length)
			good &= add_word(xids, list, length, counts);
		list += length;
		list += *list != '\0';
	}
	return good;
}

int health_xid(struct health *health, uint64_t xid, uint64_t now_ns)
{
	/* The driver reports such an error by an event of its own, too, before or after its Xid. */
	if (xid == DOUBLE_BIT && health->cause == HEALTH_ECC)
		return health_ecc(health, now_ns);
	return fall(health, HEALTH_XID, xid, now_ns);
}

bool health_is_gone(const struct health *health)
{
	return health->cause == HEALTH_LOST ||
	       (health->cause == HEALTH_XID && health->xid == FALLEN_OFF);
}

int health_ecc(struct health *health, uint64_t now_ns)
{
	return fall(health, HEALTH_ECC, 0, now_ns);
}

int health_answers(struct health *health, bool answers, uint64_t now_ns)
{
	if (!answers)
		return fall(health, HEALTH_LOST, 0, now_ns);
	if (health->cause == HEALTH_NONE || now_ns - health->quiet_since_ns < health->quiet_ns)
		return 0;
	health->cause = HEALTH_NONE;
	health->xid = 0;
	health->well_since_ns = now_ns;
	health->quiet_ns = health->quiet_ns < HEALTH_QUIET_MOST_NS / 2 ? 2 * health->quiet_ns
								       : HEALTH_QUIET_MOST_NS;
	return HEALTH_RECOVERED;
}
