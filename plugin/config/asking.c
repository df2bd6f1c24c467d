/* SPDX-License-Identifier: Apache-2.0 */
/* How much annotations may ask for. */
#include <string.h>

#include "base/text.h"
#include "base/words.h"
#include "plugin/config/asking.h"

enum { MILLI_ALL = 1000 };

static const char *const usual[] = {
#define SHARE(key, kind, normally, accepted) normally,
#include "core/share/share.def"
#undef SHARE
};

int asking_wrong(const struct asking *a, const struct annotation *entry, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(a->why->text, sizeof(a->why->text), format, arguments);
	va_end(arguments);
	fault_within(a->why, "%s", words_show(entry->key).text);
	return -EINVAL;
}

int asking_set(struct share *share, uint32_t field, const char *text)
{
	uint32_t guarantee = share->guarantee_milli, cap = share->cap_milli;
	int r;

	if (field == PORTION_guarantee)
		share->cap_milli = MILLI_ALL;
	if (field == PORTION_cap)
		share->guarantee_milli = 0;
	r = share_set(share, share_key(field), text);
	if (field == PORTION_guarantee || r != 0)
		share->cap_milli = cap;
	if (field == PORTION_cap || r != 0)
		share->guarantee_milli = guarantee;
	return r;
}

static uint64_t memory_rank(const struct asking *a, const struct share *share)
{
	uint64_t bytes = 0;

	if (share_bytes(&share->memory, a->input->device_bytes, &bytes) == SHARE_LARGE)
		return UINT64_MAX;
	return bytes;
}

/* How much of the field a share has, or how lax it is: requests for more are refused. */
static uint64_t rank(const struct asking *a, const struct share *share, enum portion_field field)
{
	switch (field) {
#define RANK(field, value)                                                                         \
	case PORTION_##field:                                                                      \
		return value;
#include "plugin/config/ranks.def"
#undef RANK
	}
	return 0;
}

/* The amount that other containers leave, but at least the slot's own, which is always there. */
static void leave(struct asking_limit *limit, uint64_t room, uint64_t slot)
{
	if (limit->rank <= room || limit->rank <= slot)
		return;
	limit->left = true;
	limit->rank = room > slot ? room : slot;
}

struct asking_limit asking_limit(const struct asking *a, enum portion_field field)
{
	const struct annotations_input *input = a->input;
	bool counted = input->counted && (field == PORTION_memory || field == PORTION_guarantee);
	bool more = !counted && portion_said(input->most, field) >= 0;
	uint64_t slot = rank(a, &a->portion, field);
	uint64_t room = a->made->exclusive ? input->memory_room_alone : input->memory_room;
	struct asking_limit limit = {.rank = slot, .text = input->portion->texts[field]};

	if ((field == PORTION_class || field == PORTION_wait) && !more && !limit.text)
		return (struct asking_limit){.none = true};
	if (more && rank(a, &a->most, field) > limit.rank) {
		limit.rank = rank(a, &a->most, field);
		limit.text = input->most->texts[field];
	}
	if (!limit.text)
		limit.text = usual[field];
	if (field == PORTION_memory) {
		if (limit.rank > input->device_bytes)
			limit.rank = input->device_bytes;
		leave(&limit, room, slot);
	} else if (field == PORTION_guarantee) {
		leave(&limit, input->guarantee_room_milli, a->portion.guarantee_milli);
	}
	return limit;
}

static void make_text(char *made, enum portion_field field, uint64_t value)
{
	const char *unit = field == PORTION_memory ? "B" : field == PORTION_weight ? "" : "/1000";

	snprintf(made, ANNOTATIONS_MADE, "%llu%s", (unsigned long long)value, unit);
}

/* True if the text is a number that was computed from a value. Any other field keeps the text of
 * the setting that limits it. */
static bool is_counted(enum portion_field field)
{
	return field == PORTION_memory || field == PORTION_weight || field == PORTION_guarantee ||
	       field == PORTION_cap;
}

static void put(struct asking *a, enum portion_field field, uint64_t value)
{
	make_text(a->made->made[field], field, value);
	a->texts.texts[field] = a->made->made[field];
	best_effort(asking_set(&a->share, field, a->texts.texts[field]));
}

void asking_make_equal(struct asking *a)
{
	/* Fields that another mode set are kept. All modes set the same weight. */
	if (!a->texts.texts[PORTION_guarantee])
		put(a, PORTION_guarantee, a->share.guarantee_milli);
	if (!a->texts.texts[PORTION_cap])
		put(a, PORTION_cap, a->share.cap_milli);
	a->texts.texts[PORTION_mode] = "equal";
	a->share.equal = 1;
}

static void lower(struct asking *a, enum portion_field field, const struct asking_limit *limit)
{
	if (field == PORTION_mode) {
		asking_make_equal(a);
	} else if (is_counted(field)) {
		put(a, field, limit->rank);
	} else {
		a->texts.texts[field] = limit->text;
		best_effort(asking_set(&a->share, field, limit->text));
	}
}

static int refuse_memory(const struct asking *a, const struct annotation *by,
			 const struct asking_limit *limit)
{
	return asking_wrong(a, by, "'%s' is more than %s; accepted: memory up to %s",
			    words_show(by->value).text,
			    limit->left		? "the limits of others on the GPU leave"
			    : a->input->counted ? "the amount counted for each GPU (gpu-memory)"
						: "this node allows",
			    text_bytes(limit->rank).text);
}

static int refuse_counted(const struct asking *a, const struct annotation *by,
			  enum portion_field field, const struct asking_limit *limit)
{
	char most[ANNOTATIONS_MADE];

	if (field == PORTION_weight)
		make_text(most, field, limit->rank);
	else
		snprintf(most, sizeof(most), "%u.%u%%", (unsigned)limit->rank / 10,
			 (unsigned)limit->rank % 10);
	return asking_wrong(a, by, "'%s' is more than %s; accepted: a %s up to %s",
			    words_show(by->value).text,
			    limit->left ? "others on the GPU leave to be guaranteed"
			    : a->input->counted && field == PORTION_guarantee
				    ? "the amount counted for each GPU (gpu-milli)"
				    : "this node allows",
			    words_dashed(share_key(field)).text, most);
}

static int refuse_more(const struct asking *a, enum portion_field field,
		       const struct asking_limit *limit)
{
	const struct annotation *by = a->by[field];
	struct words_shown key = words_dashed(share_key(field)), value = words_show(by->value);

	if (field == PORTION_memory)
		return refuse_memory(a, by, limit);
	if (is_counted(field))
		return refuse_counted(a, by, field, limit);
	if (field == PORTION_swap || field == PORTION_class || field == PORTION_wait)
		return asking_wrong(a, by,
				    "'%s' is more than this node allows; accepted: a %s up to %s",
				    value.text, key.text, limit->text);
	return asking_wrong(a, by,
			    "'%s' is laxer than this node allows; accepted: %s %s or stricter",
			    value.text, key.text, field == PORTION_mode ? "equal" : limit->text);
}

int asking_check(struct asking *a)
{
	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		enum portion_field field = (enum portion_field)i;
		struct asking_limit limit = asking_limit(a, field);

		/* Fields that were not requested come from the portion. */
		if (!a->by[i] || limit.none || rank(a, &a->share, field) <= limit.rank)
			continue;
		if (!a->input->lower)
			return refuse_more(a, field, &limit);
		lower(a, field, &limit);
	}
	if (a->input->lower && a->share.guarantee_milli > a->share.cap_milli)
		put(a, PORTION_guarantee, a->share.cap_milli);
	return 0;
}
