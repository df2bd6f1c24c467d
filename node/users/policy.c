/* SPDX-License-Identifier: Apache-2.0 */
#include "node/users/policy.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#include "base/document.h"
#include "base/file.h"
#include "base/words.h"

enum { COUNT_MAX = 768, WEIGHTS_MAX = 1000000 };

struct reading {
	const char *name;
	struct fault *why;
	const struct policy_names *names;
	struct policy *policy;
	char path[96]; /* the current position: "users.alice.sum.memory" */
};

enum kind { KIND_amount, KIND_weight, KIND_part, KIND_class, KIND_sum, KIND_count };

static const struct key {
	const char *section, *name, *accepted;
	enum kind kind;
} keys[] = {
#define KEY(section, name, kind, accepted) {#section, #name, accepted, KIND_##kind},
#include "node/users/policy.def"
#undef KEY
};

static int wrong(struct reading *in, uint32_t text_line, const char *format, ...) printf_like(3, 4);
static int wrong(struct reading *in, uint32_t text_line, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(in->why->text, sizeof(in->why->text), format, arguments);
	va_end(arguments);
	fault_within(in->why, "%s:%u%s%s", in->name, text_line, *in->path ? ": " : "", in->path);
	return -EINVAL;
}

/* Appends a key to the path. Returns the former length, for leave(). */
static size_t enter(struct reading *in, const char *key)
{
	size_t before = strlen(in->path);

	snprintf(in->path + before, sizeof(in->path) - before, "%s%s", before ? "." : "",
		 words_show(key).text);
	return before;
}

static void leave(struct reading *in, size_t before)
{
	in->path[before] = '\0';
}

/* ---- values ---------------------------------------------------------------------------------- */

static int whole_number(const char *text, uint32_t least, uint32_t most, uint32_t *ret_number)
{
	uint64_t number = 0;

	if (!*text)
		return SHARE_EMPTY;
	for (const char *at = text; *at; at++) {
		if (*at < '0' || *at > '9')
			return *text == '-' ? SHARE_NEGATIVE : SHARE_NONSENSE;
		if (number <= most)
			number = number * 10 + (uint64_t)(*at - '0');
	}
	if (number > most)
		return SHARE_LARGE;
	if (number < least)
		return SHARE_ZERO;
	*ret_number = (uint32_t)number;
	return 0;
}

static int by_share(const char *key, const char *text, struct share *share)
{
	share_init(share);
	return *text ? share_set(share, key, text) : SHARE_EMPTY;
}

static int read_value(enum kind kind, const char *text, struct policy_value *value)
{
	struct share share;
	int r;

	switch (kind) {
	case KIND_amount:
		r = by_share("memory", text, &share);
		value->amount = share.memory;
		return r;
	case KIND_weight:
		r = by_share("weight", text, &share);
		value->number = share.weight;
		return r;
	case KIND_part:
		r = by_share("guarantee", text, &share);
		value->number = share.guarantee_milli;
		return r;
	case KIND_class:
		r = by_share("class", text, &share);
		value->number = share.class;
		return r;
	case KIND_sum:
		return whole_number(text, 1, WEIGHTS_MAX, &value->number);
	case KIND_count:
		return whole_number(text, 0, COUNT_MAX, &value->number);
	}
	return SHARE_NONSENSE;
}

/* ---- maps ------------------------------------------------------------------------------------ */

static const char *kind_name(const struct document_node *node)
{
	return node->kind == DOCUMENT_LIST  ? "a list"
	       : node->kind == DOCUMENT_MAP ? "a map"
					    : "a single value";
}

/* Accepts a map, or an empty value. */
static int must_be_map(struct reading *in, const struct document_node *node)
{
	if (node->kind == DOCUMENT_MAP || document_is_null(node))
		return 0;
	return wrong(in, node->line, "this is %s; accepted: a map (KEY: VALUE)", kind_name(node));
}

static int said_before(struct reading *in, const struct document_node *map,
		       const struct document_node *value)
{
	for (const struct document_node *at = map->first; at != value; at = at->next)
		if (strcmp(at->key, value->key) == 0)
			return wrong(in, value->line, "'%s' appears twice (first on line %u)",
				     words_show(value->key).text, at->line);
	return 0;
}

static int unknown_key(struct reading *in, const struct document_node *value,
		       const char *const *names, size_t count)
{
	const char *nearest = words_nearest(value->key, names, count);
	char all[160];
	size_t length = 0;

	if (nearest)
		return wrong(in, value->line, "there is no key '%s'; the nearest is '%s'",
			     words_show(value->key).text, nearest);
	all[0] = '\0';
	for (size_t i = 0; i < count && length < sizeof(all); i++)
		length += (size_t)snprintf(all + length, sizeof(all) - length, "%s%s",
					   i ? ", " : "", names[i]);
	return wrong(in, value->line, "there is no key '%s'; accepted: %s",
		     words_show(value->key).text, all);
}

static int take_value(struct reading *in, const struct document_node *value, size_t key,
		      struct policy_terms *terms)
{
	struct policy_value taken = {.text_line = value->line};
	int r;

	if (value->kind != DOCUMENT_TEXT)
		return wrong(in, value->line, "this is %s; accepted: %s", kind_name(value),
			     keys[key].accepted);
	r = read_value(keys[key].kind, value->text, &taken);
	if (r != 0)
		return wrong(in, value->line, "'%s' %s; accepted: %s", words_show(value->text).text,
			     share_problem(r), keys[key].accepted);
	terms->value[key] = taken;
	return 0;
}

/* Collects the keys of a section. They are at [*ret_first, *ret_first + count) in the table. */
static size_t section_keys(const char *section, const char *names[POLICY_KEYS], size_t *ret_first)
{
	size_t count = 0;

	for (size_t i = 0; i < POLICY_KEYS; i++) {
		if (strcmp(keys[i].section, section) != 0)
			continue;
		if (!count)
			*ret_first = i;
		names[count++] = keys[i].name;
	}
	return count;
}

static int take_section(struct reading *in, const struct document_node *map, const char *section,
			struct policy_terms *terms)
{
	const char *names[POLICY_KEYS];
	size_t first = 0, count = section_keys(section, names, &first);
	int r = must_be_map(in, map);

	for (const struct document_node *at = map->first; r == 0 && at; at = at->next) {
		size_t i = 0, before;

		while (i < count && strcmp(names[i], at->key) != 0)
			i++;
		if (i == count)
			return unknown_key(in, at, names, count);
		r = said_before(in, map, at);
		before = enter(in, at->key);
		if (r == 0)
			r = take_value(in, at, first + i, terms);
		leave(in, before);
	}
	return r;
}

static int take_terms(struct reading *in, const struct document_node *node,
		      struct policy_terms *terms)
{
	static const char *const names[] = {"tenant", "sum"};
	int r;

	terms->text_line = node->line;
	if (node->kind == DOCUMENT_TEXT && strcmp(node->text, "none") == 0) {
		terms->none = true;
		return 0;
	}
	if (node->kind != DOCUMENT_MAP && !document_is_null(node))
		return wrong(in, node->line,
			     "this is %s; accepted: none, or a map with tenant and sum",
			     kind_name(node));
	r = 0;
	terms->none = false;
	for (const struct document_node *at = node->first; r == 0 && at; at = at->next) {
		size_t i = 0, before;

		while (i < ARRAY_SIZE(names) && strcmp(names[i], at->key) != 0)
			i++;
		if (i == ARRAY_SIZE(names))
			return unknown_key(in, at, names, ARRAY_SIZE(names));
		r = said_before(in, node, at);
		before = enter(in, at->key);
		if (r == 0)
			r = take_section(in, at, names[i], terms);
		leave(in, before);
	}
	return r;
}

/* ---- who ------------------------------------------------------------------------------------- */

static int find_id(struct reading *in, const struct document_node *at, bool group, uint32_t *ret_id)
{
	if (whole_number(at->key, 0, UINT32_MAX - 1, ret_id) == 0)
		return 0;
	if (in->names->find(in->names->context, group, at->key, ret_id) == 0)
		return 0;
	return wrong(in, at->line,
		     "there is no %s '%s' on this machine; accepted: a name or a "
		     "number",
		     group ? "group" : "user", words_show(at->key).text);
}

static int take_entries(struct reading *in, const struct document_node *map, bool group)
{
	struct policy *policy = in->policy;
	int r = must_be_map(in, map);

	for (const struct document_node *at = map->first; r == 0 && at; at = at->next) {
		struct policy_entry entry = {.group = group, .terms = policy->normally};
		size_t before;

		r = find_id(in, at, group, &entry.id);
		for (uint32_t i = 0; r == 0 && i < policy->entries; i++)
			if (policy->entry[i].group == group && policy->entry[i].id == entry.id)
				r = wrong(in, at->line, "'%s' appears twice (first on line %u)",
					  words_show(at->key).text,
					  policy->entry[i].terms.text_line);
		if (r == 0 && policy->entries == POLICY_ENTRIES_MAX)
			r = wrong(in, at->line, "more than %d users and groups",
				  POLICY_ENTRIES_MAX);
		before = enter(in, at->key);
		if (r == 0)
			r = take_terms(in, at, &entry.terms);
		leave(in, before);
		if (r == 0)
			policy->entry[policy->entries++] = entry;
	}
	return r;
}

/* take_all() reads `default` first, wherever it is in the file: each entry starts as a copy of
 * it. */
static const struct document_node *child(const struct document_node *map, const char *key)
{
	const struct document_node *at = map->first;

	while (at && strcmp(at->key, key) != 0)
		at = at->next;
	return at;
}

static int take_all(struct reading *in, const struct document_node *top)
{
	static const char *const names[] = {"default", "groups", "users", "together"};
	int r = must_be_map(in, top);

	for (const struct document_node *at = top->first; r == 0 && at; at = at->next) {
		bool known = false;

		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			known |= strcmp(names[i], at->key) == 0;
		r = known ? said_before(in, top, at)
			  : unknown_key(in, at, names, ARRAY_SIZE(names));
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
		const struct document_node *at = child(top, names[i]);

		if (!at)
			continue;
		enter(in, names[i]);
		if (i == 0)
			r = take_terms(in, at, &in->policy->normally);
		else if (i < 3)
			r = take_entries(in, at, i == 1);
		else
			r = take_section(in, at, names[i], &in->policy->normally);
		leave(in, 0);
	}
	return r;
}

void policy_init(struct policy *policy)
{
	struct policy_value *value = policy->normally.value;

	*policy = (struct policy){0};
	value[POLICY_tenant_weight].number = 100;
	value[POLICY_tenant_class].number = SHARE_STANDARD;
	value[POLICY_sum_weight].number = WEIGHTS_MAX;
	value[POLICY_sum_tenants].number = POLICY_TENANTS;
	value[POLICY_sum_devices].number = COUNT_MAX;
	value[POLICY_together_guarantee].number = 1000;
	value[POLICY_together_tenants].number = COUNT_MAX;
}

int policy_parse(const char *name, const char *text, size_t size, const struct policy_names *names,
		 struct policy *ret_policy, struct fault *why)
{
	owned(document_done) struct document document = {0};
	struct policy policy;
	struct reading in = {.name = name, .why = why, .names = names, .policy = &policy};
	int r = document_parse(name, text, size, &document, why);

	if (r < 0)
		return r;
	/* A file that is being written, or that a full disk truncated: nobody
	 * means "no limits" by it. */
	if (!document.root || document_is_null(document.root))
		return fault_set(why, -EINVAL,
				 "%s:1: the file is empty; accepted: a map (`default: {}` is what "
				 "applies without the file)",
				 name);
	policy_init(&policy);
	policy.entry = calloc(POLICY_ENTRIES_MAX, sizeof(*policy.entry));
	if (!policy.entry)
		return fault_set(why, -ENOMEM, "%s: out of memory", name);
	r = take_all(&in, document.root);
	if (r < 0) {
		policy_done(&policy);
		return r;
	}
	*ret_policy = policy;
	return 0;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int find_name(void *context, bool group, const char *name, uint32_t *ret_id)
{
	const struct passwd *user = group ? NULL : getpwnam(name);
	const struct group *all = group ? getgrnam(name) : NULL;

	(void)context;
	if (!user && !all)
		return -ENOENT;
	*ret_id = user ? user->pw_uid : all->gr_gid;
	return 0;
}

int policy_read(const char *path, struct policy *ret_policy, struct fault *why)
{
	const struct policy_names names = {.find = find_name};
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	owned(free) char *text = NULL;
	struct stat there;
	size_t size;
	int r;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		policy_init(ret_policy);
		return POLICY_ABSENT;
	}
	if (fd < 0 || fstat(fd, &there) != 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	if ((there.st_uid != 0 && there.st_uid != geteuid()) || there.st_mode & 022)
		return fault_set(
			why, -EPERM,
			"%s: must belong to root and be writable by nobody else (mode 0644)", path);
	r = S_ISREG(there.st_mode) ? file_slurp_from(fd, POLICY_BYTES_MAX, &text, &size) : -EINVAL;
	if (r < 0)
		return fault_set(why, r, "%s: %s", path, strerror(-r));
	return policy_parse(path, text, size, &names, ret_policy, why);
}

void policy_done(struct policy *policy)
{
	free(take(policy->entry));
	policy->entries = 0;
}

const struct policy_terms *policy_of(const struct policy *policy, uid_t user, const gid_t *groups,
				     size_t count)
{
	for (uint32_t i = 0; i < policy->entries; i++)
		if (!policy->entry[i].group && policy->entry[i].id == user)
			return &policy->entry[i].terms;
	for (uint32_t i = 0; i < policy->entries; i++)
		for (size_t n = 0; policy->entry[i].group && n < count; n++)
			if (policy->entry[i].id == groups[n])
				return &policy->entry[i].terms;
	return &policy->normally;
}
