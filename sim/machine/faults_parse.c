/* SPDX-License-Identifier: Apache-2.0 */
/* The language in which faults are asked for. */
#include <ctype.h>
#include <string.h>

#include "sim/machine/faults.h"
#include "sim/machine/settings.h"

static const struct {
	const char *name;
	enum faults_kind kind; /* FAULTS_NONE: its value says which */
	enum faults_point point;
	bool value;
} faults_kinds[] = {
	{"oom", FAULTS_OUT_OF_MEMORY, FAULTS_ALLOCATION, false},
	{"launch", FAULTS_LAUNCH_FAILED, FAULTS_KERNEL, false},
	{"illegal", FAULTS_ILLEGAL_ADDRESS, FAULTS_KERNEL, false},
	{"ecc", FAULTS_ECC, FAULTS_KERNEL, false},
	{"ecc-corrected", FAULTS_ECC_CORRECTED, FAULTS_KERNEL, false},
	{"xid", FAULTS_XID, FAULTS_KERNEL, true},
	{"hang", FAULTS_HANG, FAULTS_KERNEL, false},
	{"lost", FAULTS_LOST, FAULTS_KERNEL, false},
	{"slow", FAULTS_SLOW, FAULTS_CALL, true},
	{"die", FAULTS_DIE, FAULTS_DIVISION, false},
	{"make-gi", FAULTS_NONE, FAULTS_MAKE_GI, true},
	{"make-ci", FAULTS_NONE, FAULTS_MAKE_CI, true},
	{"destroy-ci", FAULTS_NONE, FAULTS_DESTROY_CI, true},
	{"destroy-gi", FAULTS_NONE, FAULTS_DESTROY_GI, true},
};

/* What a change by MIG may answer. */
static const struct {
	const char *name;
	enum faults_kind kind;
} faults_answers[] = {
	{"in-use", FAULTS_IN_USE}, {"no-room", FAULTS_NO_ROOM},	    {"unknown", FAULTS_UNKNOWN},
	{"stall", FAULTS_STALL},   {"elsewhere", FAULTS_ELSEWHERE},
};

static int refuse(struct fault *why, const char *word, size_t length, const char *problem)
{
	return fault_set(
		why, -EINVAL,
		"fault '%.*s': %s; wants KIND[=VALUE][@N[+]][:DEVICE][/PID] with KIND oom, "
		"launch, illegal, ecc, ecc-corrected, xid, hang, lost, slow, die, make-gi, "
		"make-ci, destroy-ci or destroy-gi",
		(int)(length > 60 ? 60 : length), word, problem);
}

static int parse_number(const char **at, const char *end, uint64_t *ret_value)
{
	uint64_t value = 0;
	const char *start = *at;

	while (*at < end && isdigit((unsigned char)**at)) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(**at - '0'), &value))
			return -EINVAL;
		(*at)++;
	}
	*ret_value = value;
	return *at == start ? -EINVAL : 0;
}

/* Other changes than the first have no place to miss. */
static int parse_answer(const char *text, struct faults_row *row)
{
	for (size_t i = 0; i < ARRAY_SIZE(faults_answers); i++)
		if (strcmp(faults_answers[i].name, text) == 0)
			row->kind = faults_answers[i].kind;
	if (row->kind == FAULTS_ELSEWHERE && row->point != FAULTS_MAKE_GI)
		return -EINVAL;
	return row->kind == FAULTS_NONE ? -EINVAL : 0;
}

static int parse_value(const char **at, const char *end, struct faults_row *row)
{
	char text[32];
	size_t length = 0;

	if (row->kind == FAULTS_XID)
		return parse_number(at, end, &row->value);
	while (*at < end && !strchr("@:/", **at) && length < sizeof(text) - 1)
		text[length++] = *(*at)++;
	text[length] = 0;
	return row->kind == FAULTS_NONE ? parse_answer(text, row)
					: settings_parse_time(text, &row->value);
}

/* What follows the kind: "@3+", ":1", "/1234", in any order. */
static const char *parse_when(const char **at, const char *end, struct faults_row *row)
{
	char sign = *(*at)++;
	uint64_t value;

	if (parse_number(at, end, &value) < 0)
		return "no number where one is due";
	switch (sign) {
	case '@':
		if (!value)
			return "times count from 1";
		row->first = row->last = value;
		if (*at < end && **at == '+') {
			row->last = UINT64_MAX;
			(*at)++;
		}
		return NULL;
	case ':':
		if (value >= SETTINGS_DEVICES_MAX)
			return "no such device";
		row->device = (int)value;
		return NULL;
	case '/':
		if (!value || value > INT32_MAX)
			return "no such pid";
		row->pid = (int)value;
		return NULL;
	default:
		return "something behind it that is not understood";
	}
}

static int parse_row(const char *word, size_t length, struct faults_row *ret_row, struct fault *why)
{
	struct faults_row row = {.first = 1, .last = UINT64_MAX, .device = -1};
	const char *at = word, *end = word + length, *problem;
	size_t i, name;

	while (at < end && (islower((unsigned char)*at) || *at == '-'))
		at++;
	name = (size_t)(at - word);
	for (i = 0; i < ARRAY_SIZE(faults_kinds); i++)
		if (strlen(faults_kinds[i].name) == name &&
		    memcmp(faults_kinds[i].name, word, name) == 0)
			break;
	if (i == ARRAY_SIZE(faults_kinds))
		return refuse(why, word, length, "unknown kind");
	row.kind = faults_kinds[i].kind;
	row.point = faults_kinds[i].point;
	if (faults_kinds[i].value) {
		if (at == end || *at++ != '=')
			return refuse(why, word, length, "its value is missing");
		if (parse_value(&at, end, &row) < 0)
			return refuse(why, word, length, "its value cannot be read");
	}
	while (at < end) {
		problem = parse_when(&at, end, &row);
		if (problem)
			return refuse(why, word, length, problem);
	}
	*ret_row = row;
	return 0;
}

int faults_parse(const char *text, struct faults_row ret_rows[FAULTS_MAX], size_t *ret_count,
		 struct fault *why)
{
	struct faults_row rows[FAULTS_MAX];
	size_t count = 0;
	int r;

	while (*text) {
		size_t length = strcspn(text, ",;#\n \t\r");

		if (*text == '#') {
			text += strcspn(text, "\n");
			continue;
		}
		if (!length) {
			text++;
			continue;
		}
		if (count == FAULTS_MAX)
			return refuse(why, text, length, "too many faults");
		r = parse_row(text, length, &rows[count], why);
		if (r < 0)
			return r;
		count++;
		text += length;
	}
	memcpy(ret_rows, rows, count * sizeof(rows[0]));
	*ret_count = count;
	return 0;
}
