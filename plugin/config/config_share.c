/* SPDX-License-Identifier: Apache-2.0 */
/* A share's fields, and whether the portions of all slots fit together. */
#include <string.h>

#include "base/text.h"
#include "base/words.h"
#include "plugin/config/config_read.h"
#include "plugin/config/portion.h"

enum { MILLI_ALL = 1000 };

static int take_field(struct config_read *read, size_t index, const struct document_node *value,
		      void *owner)
{
	const char *key = share_key((uint32_t)index), *text;
	struct config_share *share = owner;
	struct share probe;
	int r = config_text(read, value, share_accepts(key), &text);

	if (r < 0)
		return r;
	text = portion_word((enum portion_field)index, text);
	share_init(&probe);
	r = share_set(&probe, key, text);
	if (r != 0) {
		struct fault problem;

		fault_set(&problem, 0, "%s%s", share_problem(r),
			  share_lacks_unit(r)
				  ? words_unit_advice(text, index != PORTION_memory).text
				  : "");
		return config_refuse(read, value, problem.text, share_accepts(key));
	}
	share->lines[index] = value->line;
	return config_keep(read, text, &share->texts[index]);
}

int config_take_share(struct config_read *read, const struct document_node *value,
		      const char *accepted, struct config_share *field)
{
	static const char *const names[] = {
#define SHARE(key, kind, normally, accepted) #key,
#include "core/share/share.def"
#undef SHARE
	};
	static const struct config_section section = {names, ARRAY_SIZE(names), take_field};
	struct config_share share = {0};
	int r;

	if (value->kind != DOCUMENT_MAP && !document_is_null(value))
		return config_wrong(read, value->line, "this is a %s; accepted: %s",
				    value->kind == DOCUMENT_LIST ? "list" : "single value",
				    accepted);
	r = config_walk(read, value, &section, &share);
	if (r < 0)
		return r;
	/* In `nodes`, as overrides of the general settings. */
	portion_lay(field, &share);
	return 0;
}

int config_take_portion(struct config_read *read, const struct document_node *value,
			const char *accepted, struct config_share *field)
{
	struct config_rule *rule = container_of(field, struct config_rule, share);

	if (value->kind == DOCUMENT_TEXT && strcmp(value->text, "none") == 0) {
		rule->hidden = true;
		return 0;
	}
	return config_take_share(read, value, accepted, field);
}

/* The scope of one check: the slots of these devices at these times. */
struct combination {
	const struct config *config;
	const char *what;
	const struct config_rule *rule;	      /* NULL: devices that no rule matches */
	const struct config_profile *profile; /* NULL: when it is no profile's time */
	uint64_t total_bytes;		      /* 0: not known */
	uint32_t slots;
	struct config_share portion;
	struct share share;
};

static int wrong(const struct combination *c, uint32_t line, struct fault *why, const char *format,
		 ...) printf_like(4, 5);
static int wrong(const struct combination *c, uint32_t line, struct fault *why, const char *format,
		 ...)
{
	struct fault said;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(said.text, sizeof(said.text), format, arguments);
	va_end(arguments);
	return fault_set(why, -EINVAL, "%s:%u: %s%s%s%s%s%s%s", c->config->name, line,
			 c->rule ? "devices that match '" : c->what,
			 c->rule ? words_show(c->rule->match).text : "", c->rule ? "'" : "",
			 c->profile ? " in profile " : "", c->profile ? c->profile->name : "", ": ",
			 said.text);
}

static int check_order(struct combination *c, struct fault *why)
{
	uint32_t field;
	int r = portion_resolve(&c->portion, &c->share, &field);

	if (r == 0)
		return 0;
	return wrong(c, c->portion.lines[field], why, "%s: '%s' %s; accepted: %s",
		     words_dashed(share_key(field)).text, words_show(c->portion.texts[field]).text,
		     share_problem(r), share_accepts(share_key(field)));
}

static int check_guarantees(const struct combination *c, struct fault *why)
{
	uint32_t sum = c->slots * c->share.guarantee_milli;
	int field = portion_said(&c->portion, PORTION_guarantee);

	if (sum <= MILLI_ALL || field < 0)
		return 0;
	return wrong(c, c->portion.lines[field], why,
		     "%u slots with a guarantee of %u.%u%% each are %u.%u%% of a device's time; "
		     "accepted: at "
		     "most 100%% in sum",
		     c->slots, c->share.guarantee_milli / 10, c->share.guarantee_milli % 10,
		     sum / 10, sum % 10);
}

uint64_t config_promised(const struct config *config, uint64_t device_bytes)
{
	return device_bytes / MILLI_ALL * config->overcommit_milli +
	       device_bytes % MILLI_ALL * config->overcommit_milli / MILLI_ALL;
}

static int check_memory(const struct combination *c, struct fault *why)
{
	const struct share_amount *memory = &c->share.memory;
	uint32_t overcommit = c->config->overcommit_milli, line = c->portion.lines[PORTION_memory];
	uint64_t bytes, promised;

	/* A share without a limit was promised nothing. */
	if (!c->portion.texts[PORTION_memory])
		return 0;
	if (memory->milli && (uint64_t)c->slots * memory->milli > overcommit)
		return wrong(c, line, why,
			     "%u slots of %s are %llu.%llu%% of a device's memory; accepted: at "
			     "most the "
			     "overcommit of %u.%u%% in sum",
			     c->slots, c->portion.texts[PORTION_memory],
			     (unsigned long long)c->slots * memory->milli / 10,
			     (unsigned long long)c->slots * memory->milli % 10, overcommit / 10,
			     overcommit % 10);
	if (!c->total_bytes)
		return 0;
	if (share_bytes(memory, c->total_bytes, &bytes) != 0)
		return wrong(c, line, why, "a slot of %s does not fit in a device that has %s",
			     c->portion.texts[PORTION_memory], text_bytes(c->total_bytes).text);
	promised = config_promised(c->config, c->total_bytes);
	if (bytes > promised / c->slots)
		return wrong(
			c, line, why,
			"%u slots of %s are more than the %s that may be promised of a device with "
			"%s (overcommit: %u.%u%%)",
			c->slots, c->portion.texts[PORTION_memory],
			text_bytes_beside(promised, c->total_bytes).text,
			text_bytes_beside(c->total_bytes, promised).text, overcommit / 10,
			overcommit % 10);
	return 0;
}

/* In each profile, and outside of all profiles. */
static int check_profiles(const struct config *config, const struct config_rule *rule,
			  uint64_t total_bytes, struct fault *why)
{
	for (uint32_t i = 0; i <= config->profiles; i++) {
		struct combination c = {
			.config = config,
			.what = "devices",
			.rule = rule,
			.profile = i ? &config->profile[i - 1] : NULL,
			.total_bytes = total_bytes,
			/* Amounts that are counted need not all be available at the same time. */
			.slots = config->counted == CONFIG_COUNTED_AMOUNTS ? 1
				 : rule && rule->slots			   ? rule->slots
									   : config->slots,
			.portion = config->share,
		};
		int r;

		if (rule)
			portion_lay(&c.portion, &rule->share);
		if (c.profile)
			portion_lay(&c.portion, &c.profile->share);
		r = check_order(&c, why);
		if (r == 0)
			r = check_guarantees(&c, why);
		if (r == 0)
			r = check_memory(&c, why);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Ids that name a device let the kubelet choose the device. */
static int check_ids(const struct config *config, struct fault *why)
{
	if (config->counted != CONFIG_COUNTED_AMOUNTS || !config->lines[CONFIG_KEY_ids] ||
	    config->ids == CONFIG_IDS_SLOT)
		return 0;
	return config_blame(config, "ids", why,
			    "'uuid' does not go with 'counted: amounts', where meted picks the "
			    "device; accepted: slot, or no such key");
}

/* kube-scheduler alone counts what excludes what; a slot names a device that is there. */
static int check_mig(const struct config *config, struct fault *why)
{
	if (!config->makes_parts || config->dra)
		return 0;
	return config_blame(config, "mig", why,
			    "'dynamic' makes parts for claims, and the devices are given out by "
			    "slots; accepted: 'dra: on', or no such key");
}

int config_check_sums(const struct config *config, struct fault *why)
{
	struct combination most = {.config = config, .what = "mete.most", .portion = config->most};
	int r = check_ids(config, why);
	bool all = false;

	if (r == 0)
		r = check_mig(config, why);
	if (r == 0)
		r = check_order(&most, why);
	/* Rules after "*" never apply. */
	for (uint32_t i = 0; i < config->rules && r == 0 && !all; i++) {
		if (!config->rule[i].hidden)
			r = check_profiles(config, &config->rule[i], 0, why);
		all = strcmp(config->rule[i].match, "*") == 0;
	}
	return r == 0 && !all ? check_profiles(config, NULL, 0, why) : r;
}

int config_fits(const struct config *config, const struct config_device *device, struct fault *why)
{
	const struct config_rule *rule = config_rule_of(config, device);

	if (rule && rule->hidden)
		return 0;
	return check_profiles(config, rule, device->total_bytes, why);
}
