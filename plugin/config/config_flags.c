/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/config/config_flags.h"

#include <string.h>

#include "base/words.h"

enum { NAME_BYTES = 48, VALUE_BYTES = 1024 };

enum form { ONE, TURNED, SEVERAL };

static const struct {
	const char *variable;
	enum form form;
	const char *name; /* NULL: it is the variable's */
	const char *path; /* of the key; NULL: it has none */
} rows[] = {
#define KEY(path, variable, form, normally, without) {variable, form, NULL, path},
#define ALSO(variable, path)			     {variable, ONE, NULL, path},
#define VARIABLE(name, form, without)		     {name, form, NULL, NULL},
#define OPTION(name, variable)			     {variable, ONE, name, NULL},
#include "plugin/config/config_nvidia.def"
};

/* "--mig-strategy" of MIG_STRATEGY; "": it is none. Health checks have variables only. */
static void name_of(size_t row, char ret_name[NAME_BYTES])
{
	const char *variable = rows[row].variable;
	size_t i = 0;

	if (rows[row].name) {
		snprintf(ret_name, NAME_BYTES, "%s", rows[row].name);
		return;
	}
	for (; strncmp(variable, "DP_", 3) != 0 && variable[i] && i < NAME_BYTES - 1; i++) {
		char c = variable[i];

		ret_name[i] = c;
		if (c == '_')
			ret_name[i] = '-';
		else if (c >= 'A' && c <= 'Z')
			ret_name[i] = (char)(c - 'A' + 'a');
	}
	ret_name[i] = '\0';
}

static int find(const char *word, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char name[NAME_BYTES];

		name_of(i, name);
		if (length && strlen(name) == length && memcmp(name, word, length) == 0)
			return (int)i;
	}
	return -1;
}

/* The first row of those that stand for the same: options of both set its variable, because a
 * second variable of a key would not go before the first one in the environment. */
static size_t first_of(size_t row)
{
	size_t i = 0;

	while (strcmp(rows[i].variable, rows[row].variable) != 0 &&
	       (!rows[row].path || !rows[i].path || strcmp(rows[i].path, rows[row].path) != 0))
		i++;
	return i;
}

/* As in that plugin, one option has one name in a command line. */
static int refuse_both(size_t one, size_t other, struct fault *why)
{
	char names[2][NAME_BYTES];

	name_of(one, names[0]);
	name_of(other, names[1]);
	return fault_set(why, -EINVAL, "--%s and --%s are one option; accepted: one of them",
			 names[0], names[1]);
}

static int refuse(const char *word, struct fault *why)
{
	char names[ARRAY_SIZE(rows)][NAME_BYTES], name[NAME_BYTES];
	const char *list[ARRAY_SIZE(rows)], *nearest;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		name_of(i, names[n]);
		list[n] = names[n];
		n += *names[n] != '\0';
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	nearest = words_nearest(name, list, n);
	return fault_set(why, -EINVAL,
			 "there is no option --%s%s%s; accepted: those of NVIDIA's "
			 "device plugin, and after -- those of meted",
			 words_show(name).text, nearest ? "; the nearest is --" : "",
			 nearest ? nearest : "");
}

/* One that may be given several times is a list. */
static int set(const struct config_flags *flags, size_t row, const char *value, bool again,
	       struct fault *why)
{
	const char *before =
		again && rows[row].form == SEVERAL ? flags->get(rows[row].variable) : NULL;
	char all[VALUE_BYTES];

	if (snprintf(all, sizeof(all), "%s%s%s", before ? before : "", before ? "," : "", value) >=
	    (int)sizeof(all))
		return fault_set(why, -EINVAL, "$%s: too long; accepted: at most %d bytes",
				 rows[row].variable, VALUE_BYTES - 1);
	if (flags->set(rows[row].variable, all, 1) != 0)
		return fault_set(why, -ENOMEM, "out of memory");
	return 0;
}

int config_take_flags(const struct config_flags *flags, char *const *words, int count,
		      int *ret_rest, struct fault *why)
{
	int by[ARRAY_SIZE(rows)] = {0}; /* the row that has set a variable, from 1 */
	int i = 0, r = 0;

	for (; r == 0 && i < count && strcmp(words[i], "--") != 0; i++) {
		const char *word = words[i] + strspn(words[i], "-"), *value = strchr(word, '=');
		int row = *words[i] == '-' ? find(word, strcspn(word, "=")) : -1;
		size_t first;

		if (row < 0)
			return refuse(word, why);
		first = first_of((size_t)row);
		if (by[first] && by[first] != row + 1)
			return refuse_both((size_t)by[first] - 1, (size_t)row, why);
		if (value)
			value++;
		else if (rows[row].form == TURNED)
			value = "true";
		else if (i + 1 < count)
			value = words[++i];
		else
			return fault_set(why, -EINVAL, "--%s needs a value", word);
		r = set(flags, first, value, by[first], why);
		by[first] = row + 1;
	}
	*ret_rest = i < count ? i + 1 : count;
	return r;
}

void config_each_flag(void (*each)(void *owner, const char *option, const char *variable,
				   bool turned),
		      void *owner)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char name[NAME_BYTES];

		name_of(i, name);
		if (*name)
			each(owner, name, rows[first_of(i)].variable, rows[i].form == TURNED);
	}
}
