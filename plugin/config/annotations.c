/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/config/annotations.h"

#include <string.h>

#include "base/text.h"
#include "base/words.h"
#include "plugin/config/asking.h"

enum { VALUE_MAX = 63, MILLI_ALL = 1000 };

static const char wait_usual[] = "1m";

static const char *const names[] = {
#define SHARE(key, kind, normally, accepted) #key,
#include "core/share/share.def"
#undef SHARE
#define WORD(name, accepted) #name,
#include "plugin/config/annotations.def"
#undef WORD
};

static const char *const accepts[] = {
#define SHARE(key, kind, normally, accepted) accepted,
#include "core/share/share.def"
#undef SHARE
#define WORD(name, accepted) accepted,
#include "plugin/config/annotations.def"
#undef WORD
};

static int refuse(const struct asking *a, const struct annotation *entry, const char *problem,
		  const char *accepted)
{
	return asking_wrong(a, entry, "'%s' %s; accepted: %s", words_show(entry->value).text,
			    problem, accepted);
}

/* The target of a key: the pod, this container, or neither. */
enum whose { WHOSE_POD, WHOSE_OWN, WHOSE_OTHER };

/* The kubelet gives the slots of an init container to those that follow it, and does not always say
 * which of them starts: a share of its own would be one now, and none the next time. */
static int take_known(const struct asking *a, const struct annotation *entry, size_t index,
		      enum whose *ret_whose)
{
	const struct annotations_input *input = a->input;

	if (input->inits && input->inits[index])
		return asking_wrong(
			a, entry,
			"'%s' is an init container, which has the slots of the "
			"containers that follow it, and no share of its own; accepted: "
			"%s, for the whole pod",
			words_show(input->containers[index]).text,
			words_show(entry->key + strlen(input->containers[index]) + 1).text);
	if (strcmp(input->containers[index], input->container) == 0)
		*ret_whose = WHOSE_OWN;
	return 0;
}

static int find_whose(const struct asking *a, const struct annotation *entry, enum whose *ret_whose)
{
	const struct annotations_input *input = a->input;
	const char *slash = strchr(entry->key, '/');
	size_t domain = strlen(input->domain), length;
	char container[WORDS_LABEL_MAX + 1];

	*ret_whose = WHOSE_OTHER;
	if (!slash || (size_t)(slash - entry->key) < domain ||
	    strncmp(slash - domain, input->domain, domain) != 0)
		return 0;
	length = (size_t)(slash - entry->key) - domain;
	if (!length) {
		*ret_whose = WHOSE_POD;
		return 0;
	}
	/* A container's name has no dots: otherwise it is another's domain below ours. */
	if (entry->key[length - 1] != '.' || length == 1 || length > sizeof(container) ||
	    memchr(entry->key, '.', length - 1))
		return 0;
	memcpy(container, entry->key, length - 1);
	container[length - 1] = '\0';
	for (size_t i = 0; i < input->container_count; i++)
		if (strcmp(container, input->containers[i]) == 0)
			return take_known(a, entry, i, ret_whose);
	if (strcmp(container, input->container) == 0) {
		*ret_whose = WHOSE_OWN;
		return 0;
	}
	if (input->container_count)
		return asking_wrong(a, entry, "the pod has no container '%s'",
				    words_show(container).text);
	return 0;
}

static int unknown(const struct asking *a, const struct annotation *entry, const char *name)
{
	const char *nearest = words_nearest(name, names, ARRAY_SIZE(names));
	char all[256];
	size_t length = 0;

	if (nearest)
		return asking_wrong(a, entry, "there is no such annotation; the nearest is '%s'",
				    words_dashed(nearest).text);
	for (size_t i = 0; i < ARRAY_SIZE(names) && length < sizeof(all); i++)
		length += (size_t)snprintf(all + length, sizeof(all) - length, "%s%s",
					   i ? ", " : "", words_dashed(names[i]).text);
	return asking_wrong(a, entry, "there is no such annotation; accepted: %s", all);
}

static int gather(struct asking *a)
{
	for (size_t i = 0; i < a->input->count; i++) {
		const struct annotation *entry = &a->input->entries[i];
		const char *name = strchr(entry->key, '/');
		enum whose whose;
		size_t index = 0;
		int r = find_whose(a, entry, &whose);

		if (r < 0)
			return r;
		if (whose == WHOSE_OTHER)
			continue;
		while (index < WORDS_END && !words_same(name + 1, names[index]))
			index++;
		if (index == WORDS_END)
			return unknown(a, entry, name + 1);
		if (a->said[index] && a->own[index] == (whose == WHOSE_OWN))
			return asking_wrong(a, entry, "this appears twice; accepted: once");
		if (a->said[index] && a->own[index])
			continue;
		a->said[index] = entry;
		a->own[index] = whose == WHOSE_OWN;
	}
	return 0;
}

static void note(struct asking *a, uint32_t field, const char *text, const struct annotation *by)
{
	struct config_share over = {0};

	over.texts[field] = text;
	portion_lay(&a->texts, &over);
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		if (i == field || share_includes(share_key(field), share_key(i)))
			a->by[i] = by;
}

static int take_field(struct asking *a, uint32_t field)
{
	const struct annotation *entry = a->said[field];
	struct fault problem;
	const char *text;
	int r;

	if (!*entry->value)
		return refuse(a, entry, share_problem(SHARE_EMPTY), accepts[field]);
	if (strnlen(entry->value, VALUE_MAX + 1) > VALUE_MAX)
		return refuse(a, entry, "is too long", accepts[field]);
	text = portion_word((enum portion_field)field, entry->value);
	r = asking_set(&a->share, field, text);
	if (r == 0) {
		note(a, field, text, entry);
		return 0;
	}
	fault_set(&problem, 0, "%s%s", share_problem(r),
		  share_lacks_unit(r) ? words_unit_advice(text, field != PORTION_memory).text : "");
	return refuse(a, entry, problem.text, accepts[field]);
}

/* If both are given, decides whether the word or the field counts: the one given for the container.
 * Never both of one kind. */
static int settle(struct asking *a, enum word word, uint32_t field)
{
	if (!a->said[word] || !a->said[field])
		return 0;
	if (a->own[word] == a->own[field])
		return asking_wrong(a, a->said[word],
				    "'%s' and %s are both given; accepted: one of them",
				    words_show(a->said[word]->value).text,
				    words_show(a->said[field]->key).text);
	a->said[a->own[word] ? field : (uint32_t)word] = NULL;
	return 0;
}

enum qos { QOS_FIXED, QOS_EQUAL, QOS_BEST_EFFORT, QOS_LATENCY, QOS_END };

static enum qos read_qos(const char *text)
{
	static const char *const words[] = {"fixed", "equal", "best-effort", "latency"};
	uint32_t i = 0;

	while (i < ARRAY_SIZE(words) && strcmp(text, words[i]) != 0)
		i++;
	return (enum qos)i;
}

static int settle_words(struct asking *a)
{
	static const enum portion_field sets[] = {
		[QOS_FIXED] = PORTION_cap,
		[QOS_EQUAL] = PORTION_mode,
		[QOS_BEST_EFFORT] = PORTION_guarantee,
		[QOS_LATENCY] = PORTION_class,
	};
	const struct annotation *qos = a->said[WORD_qos];
	enum qos which = qos ? read_qos(qos->value) : QOS_END;
	int r;

	if (qos && which == QOS_END)
		return refuse(a, qos, "is not understood", accepts[WORD_qos]);
	r = settle(a, WORD_on_full, PORTION_wait);
	if (r == 0 && qos)
		r = settle(a, WORD_qos, sets[which]);
	/* A latency does not set weight, guarantee and cap. */
	if (r == 0 && qos && which != QOS_LATENCY)
		r = settle(a, WORD_qos, PORTION_mode);
	return r;
}

/* Lies within the slot's weight, guarantee and cap, as a mode does not. */
static int take_qos(struct asking *a, const struct annotation *entry)
{
	int field;

	switch (read_qos(entry->value)) {
	case QOS_EQUAL:
		asking_make_equal(a);
		a->by[PORTION_mode] = entry;
		return 0;
	case QOS_BEST_EFFORT:
		a->share.guarantee_milli = 0;
		note(a, PORTION_guarantee, "0%", entry);
		return 0;
	case QOS_LATENCY:
		a->share.class = SHARE_INTERACTIVE;
		note(a, PORTION_class, "interactive", entry);
		return 0;
	case QOS_FIXED:
	case QOS_END:
		break;
	}
	if (!a->share.guarantee_milli)
		return asking_wrong(
			a, entry,
			"'fixed' makes the guarantee the cap, but no guarantee is given; accepted: "
			"together with %s/guarantee, or another qos",
			a->input->domain);
	field = portion_said(&a->texts, PORTION_guarantee);
	a->share.cap_milli = a->share.guarantee_milli;
	/* A mode that sets the guarantee has set the cap to the same. */
	if (field == PORTION_guarantee)
		note(a, PORTION_cap, a->texts.texts[field], entry);
	return 0;
}

/* A wait if none is set: the usual one, or the longest allowed. */
static int take_on_full(struct asking *a, const struct annotation *entry)
{
	struct asking_limit limit = asking_limit(a, PORTION_wait);
	bool wait = strcmp(entry->value, "wait") == 0;
	const char *text = wait ? wait_usual : "0s";
	struct share probe;

	if (!wait && strcmp(entry->value, "fail") != 0)
		return refuse(a, entry, "is not understood", accepts[WORD_on_full]);
	if (wait && a->share.wait_ns)
		return 0;
	share_init(&probe);
	best_effort(asking_set(&probe, PORTION_wait, text));
	if (!limit.none && limit.rank && probe.wait_ns > limit.rank)
		text = limit.text;
	best_effort(asking_set(&a->share, PORTION_wait, text));
	note(a, PORTION_wait, text, entry);
	return 0;
}

/* Exclusive use keeps all of the device from others, whatever the container's own limit is. */
static int check_exclusive(const struct asking *a, const struct annotation *entry)
{
	struct asking_limit limit = asking_limit(a, PORTION_memory);

	if (a->input->counted && a->portion.guarantee_milli < MILLI_ALL)
		return asking_wrong(
			a, entry,
			"a whole GPU is more than the counted amount; accepted: together "
			"with %s/gpu-milli: %d for each GPU",
			a->input->domain, MILLI_ALL);
	if (a->input->counted || a->input->placed || limit.rank >= a->input->device_bytes)
		return 0;
	return asking_wrong(
		a, entry,
		"an exclusive container has all of the GPU, but this node allows memory up to "
		"%s; accepted: where 'most' has memory: 100%%",
		text_bytes(limit.rank).text);
}

static int take_exclusive(struct asking *a, const struct annotation *entry, bool *ret_exclusive)
{
	int r;

	*ret_exclusive = strcmp(entry->value, "true") == 0;
	if (!*ret_exclusive && strcmp(entry->value, "false") != 0)
		return refuse(a, entry, "is not understood", accepts[WORD_exclusive]);
	r = *ret_exclusive ? check_exclusive(a, entry) : 0;
	if (r < 0 && a->input->lower) {
		*ret_exclusive = false;
		return 0;
	}
	return r;
}

/* The node cannot do this by itself: the scheduler must have done it before. */
static int check_words(const struct asking *a)
{
	static const enum word theirs[] = {WORD_model, WORD_gpu_uuid, WORD_policy};

	if (a->said[WORD_assigned] && !a->input->placed)
		return asking_wrong(a, a->said[WORD_assigned],
				    "only mete's scheduler writes this, and it did not place the "
				    "pod");
	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++)
		if (a->said[theirs[i]] && !a->input->placed)
			return asking_wrong(a, a->said[theirs[i]],
					    "only mete's scheduler can honour this, and it did not "
					    "place the pod");
	return 0;
}

static int take_all(struct asking *a, struct annotations_share *ret)
{
	int r = settle_words(a);

	for (uint32_t i = 0; i < SHARE_FIELDS && r == 0; i++)
		if (a->said[i])
			r = take_field(a, i);
	if (r == 0 && a->said[WORD_qos])
		r = take_qos(a, a->said[WORD_qos]);
	if (r == 0 && a->said[WORD_on_full])
		r = take_on_full(a, a->said[WORD_on_full]);
	if (r == 0 && a->said[WORD_exclusive])
		r = take_exclusive(a, a->said[WORD_exclusive], &ret->exclusive);
	return r < 0 ? r : check_words(a);
}

/* Only the guarantee and the cap can contradict each other. */
static int check_order(const struct asking *a)
{
	static const enum portion_field fields[] = {PORTION_guarantee, PORTION_cap, PORTION_mode};
	struct share whole;
	uint32_t field;
	int r = portion_resolve(&a->texts, &whole, &field);

	for (size_t i = 0; r != 0 && i < ARRAY_SIZE(fields); i++)
		if (a->by[fields[i]])
			return asking_wrong(a, a->by[fields[i]],
					    "'%s' does not go with the %s of '%s', which %s",
					    words_show(a->by[fields[i]]->value).text,
					    words_dashed(share_key(field)).text,
					    a->texts.texts[field], share_problem(r));
	return r != 0 ? fault_set(a->why, -EINVAL, "%s/%s: '%s' %s", a->input->domain,
				  words_dashed(share_key(field)).text, a->texts.texts[field],
				  share_problem(r))
		      : 0;
}

/* Managed memory beyond the device's is for containers that have all of the device's memory. */
static int check_oversize(struct asking *a)
{
	const struct annotation *by = a->by[PORTION_oversize];
	uint64_t bytes;

	if (!a->share.oversize ||
	    (share_bytes(&a->share.memory, a->input->device_bytes, &bytes) == 0 &&
	     bytes >= a->input->device_bytes))
		return 0;
	if (by && !a->input->lower)
		return asking_wrong(a, by,
				    "'%s' needs all of the GPU's memory; accepted: refuse, or "
				    "managed with memory 100%%",
				    words_show(by->value).text);
	a->texts.texts[PORTION_oversize] = share_default("oversize");
	a->share.oversize = 0;
	return 0;
}

int annotations_share(const struct annotations_input *input, struct annotations_share *ret_share,
		      struct fault *why)
{
	struct asking a = {.input = input, .why = why, .made = ret_share, .texts = *input->portion};
	uint32_t field;
	int r = portion_resolve(input->portion, &a.portion, &field);

	if (r == 0)
		r = portion_resolve(input->most, &a.most, &field);
	if (r != 0)
		return fault_set(why, -EINVAL, "the configuration's %s %s",
				 words_dashed(share_key(field)).text, share_problem(r));
	*ret_share = (struct annotations_share){0};
	a.share = a.portion;
	r = gather(&a);
	if (r == 0)
		r = take_all(&a, ret_share);
	if (r == 0)
		r = asking_check(&a);
	if (r == 0)
		r = check_order(&a);
	if (r == 0)
		r = check_oversize(&a);
	if (r == 0)
		memcpy(ret_share->texts, a.texts.texts, sizeof(ret_share->texts));
	return r;
}
