/* SPDX-License-Identifier: Apache-2.0 */
/* Creates tenants for the CLI: their devices, their names, their outer tenants. Also finds the
 * tenant that a person means. */
#include "node/peers/admin_make.h"

#include <string.h>

#include "base/text.h"
#include "node/daemon.h"
#include "node/devices/cordon.h"
#include "node/memory/outside.h"
#include "node/move/move.h"
#include "node/peers/admin.h"
#include "node/peers/admin_named.h"
#include "node/peers/admin_types.h"
#include "node/peers/peer.h"
#include "node/state/recorder.h"
#include "node/tenants/nested.h"
#include "node/tenants/tenant.h"
#include "node/tenants/tenant_find.h"
#include "node/tenants/tenant_spec.h"
#include "node/users/promise.h"
#include "node/users/terms.h"
#include "node/users/user_name.h"

/* The device with most memory that is neither promised nor in use outside, of those that take new
 * tenants; ties go to the lower index. If none does, it is the first one, which is then refused. */
static uint32_t emptiest(const struct daemon *d)
{
	uint32_t best = 0;
	int64_t best_left = INT64_MIN;

	for (uint32_t i = 0; i < d->devices; i++) {
		const struct device *device = &d->device[i];
		int64_t left = (int64_t)(device->info->total_bytes - device->promised_bytes -
					 outside_bytes(d, i));

		if (device->cordoned || device->info->gone)
			continue;
		if (left > best_left) {
			best = i;
			best_left = left;
		}
	}
	return best;
}

/* UUIDs or indices, separated by commas; "": none yet. */
static int pick_devices(struct daemon *d, const char *text, struct tenant_spec *spec,
			struct fault *why)
{
	char rest[WIRE_TEXT_MAX + 1], *at = rest, *name;

	if (!d->devices)
		return fault_set(why, -ENODEV, "this machine has no device");
	if (!*text)
		return 0;
	snprintf(rest, sizeof(rest), "%s", text);
	while ((name = strsep(&at, ","))) {
		uint32_t index = 0;
		int r;

		r = daemon_find_device(d, name, &index);
		if (r == -ENOTUNIQ)
			return fault_set(why, r,
					 "device: several UUIDs begin with '%.60s'; accepted: more "
					 "of it, or an index (`mete ps` lists them)",
					 name);
		if (r < 0)
			return fault_set(why, -ENODEV,
					 "device: there is no '%.60s'; accepted: a UUID, its "
					 "beginning, or an index "
					 "below %u (`mete ps` lists them)",
					 name, d->devices);
		for (uint32_t i = 0; i < spec->devices; i++) {
			if (spec->device[i] == index)
				return fault_set(why, -EINVAL, "device: '%.60s' is named twice",
						 name);
		}
		if (spec->devices == WIRE_DEVICES)
			return fault_set(why, -EINVAL, "device: more than %d devices",
					 WIRE_DEVICES);
		spec->device[spec->devices++] = index;
	}
	return 0;
}

static void read_share(const struct wire_tenant_new *said, struct tenant_spec *ret_spec)
{
	const struct {
		const char *key;
		const wire_text *text;
	} fields[] = {
		{"memory", &said->memory},
		{"wait", &said->wait},
		{"on_daemon_loss", &said->on_daemon_loss},
		{"mode", &said->mode},
		{"weight", &said->weight},
		{"guarantee", &said->guarantee},
		{"cap", &said->cap},
		{"class", &said->class},
		{"escalate", &said->escalate},
		{"swap", &said->swap},
		{"idle", &said->idle},
		{"oversize", &said->oversize},
	};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		ret_spec->texts[share_index(fields[i].key)] = fields[i].text->text;
	ret_spec->texts[share_index("notices")] = said->quiet ? "off" : "";
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_number(const char *name)
{
	return *name && !name[strspn(name, "0123456789")];
}

/* "train" is taken: the lowest free number for "train-2". */
static unsigned free_number(const struct daemon *d, const char *name)
{
	uint8_t taken[(DAEMON_TENANTS + 2) / 8 + 1] = {0};
	size_t length = strlen(name);
	unsigned number = 2;

	list_for_each(link, (struct list *)&d->tenants.all)
	{
		const struct tenant *t = list_entry(link, struct tenant, link);
		unsigned long other;

		if (strncmp(t->name, name, length) != 0 || t->name[length] != '-' ||
		    !is_number(t->name + length + 1))
			continue;
		other = strtoul(t->name + length + 1, NULL, 10);
		if (other <= DAEMON_TENANTS + 1)
			taken[other / 8] |= (uint8_t)(1u << other % 8);
	}
	while (taken[number / 8] & 1u << number % 8)
		number++;
	return number;
}

/* Names are unique. No name is a number, because numbers are ids. */
static void choose_name(struct daemon *d, const char *wanted, char name[WIRE_TEXT_MAX + 1])
{
	size_t most = WIRE_TEXT_MAX - 8;

	snprintf(name, WIRE_TEXT_MAX + 1, "%s", wanted);
	text_make_plain(name);
	if (*name && !is_number(name) && !tenant_find_by_name(d, name))
		return;
	name[text_fit(name, most)] = '\0';
	snprintf(name + strlen(name), WIRE_TEXT_MAX + 1 - strlen(name), "-%u",
		 free_number(d, name));
}

/* ---- making ---------------------------------------------------------------------------------- */

static void answer_made(struct admin *a, uint32_t id, struct tenant *t, bool joined,
			const char *note)
{
	struct wire_message answer = {.code = WIRE_tenant_made, .id = id};

	answer.tenant_made.tenant = t->id;
	answer.tenant_made.joined = joined;
	wire_set_text(&answer.tenant_made.socket, t->socket);
	wire_set_text(&answer.tenant_made.uuid,
		      a->daemon->device[t->device[0].index].info->uuid_text);
	wire_set_text(&answer.tenant_made.name, t->name);
	wire_set_text(&answer.tenant_made.note, note);
	peer_send(&a->peer, &answer);
}

static int within_devices(const struct tenant_spec *spec, const struct daemon *d, struct fault *why)
{
	for (uint32_t i = 0; i < spec->devices; i++)
		if (!nested_account(spec->outer, spec->device[i]))
			return fault_set(why, -EPERM,
					 "device: this runs within tenant %u (%.40s), which does "
					 "not have %.60s",
					 spec->outer->id, spec->outer->name,
					 d->device[spec->device[i]].info->uuid_text);
	return 0;
}

/* Does it ask for less memory than the outer tenant has, on any of the devices? */
static bool is_part(const struct daemon *d, const struct tenant_spec *spec)
{
	const char *text = spec->texts[share_index("memory")];
	struct share_amount amount;

	if (!text || !*text || share_parse_amount(text, &amount) != 0)
		return text && *text; /* tenant_make() reports it */
	for (uint32_t i = 0; i < spec->devices; i++) {
		struct ledger_sums outer;
		uint64_t bytes;

		ledger_account_sums(nested_account(spec->outer, spec->device[i]), &outer);
		if (share_bytes(&amount, d->device[spec->device[i]].info->total_bytes, &bytes) !=
			    0 ||
		    bytes < outer.limit)
			return true;
	}
	return false;
}

static void outer_devices(struct tenant_spec *spec)
{
	spec->devices = spec->outer->devices;
	for (uint32_t i = 0; i < spec->devices; i++)
		spec->device[i] = spec->outer->device[i].index;
}

/* The caller gets the outer tenant itself. */
static int join(struct admin *a, uint32_t id, const struct tenant_spec *spec, struct fault *why)
{
	struct tenant *t = spec->outer;
	char note[WIRE_TEXT_MAX + 1] = "";
	int r = admin_keep(a, t, why);

	if (r < 0)
		return r;
	if (spec->texts[share_index("memory")] && *spec->texts[share_index("memory")])
		snprintf(note, sizeof(note),
			 "within tenant %u (%.60s): its limit of %s also applies to this program",
			 t->id, t->name, text_bytes(t->shown->device[0].limit_bytes).text);
	answer_made(a, id, t, true, note);
	return 0;
}

/* A caller that asked for memory that moves is told if none will. Without a limit `mete run` asks
 * for it by itself, and a person who wants no store is not told about it each time. */
static void note_movement(const struct tenant *t, const struct tenant_spec *spec, char *note,
			  size_t size)
{
	const char *memory = spec->texts[share_index("memory")];
	bool limited = memory && *memory;
	struct fault never;

	if (t->share.swap && (limited || t->daemon->move.stores.budget_bytes) &&
	    move_why_never(t->daemon, &never))
		snprintf(note, size, "swap=auto: %.240s", never.text);
	else if (t->share.park_ns && !t->share.swap)
		snprintf(note, size,
			 "idle=park has no effect, as its memory does not move: --swap auto lets "
			 "it, beside --memory or --wait too");
}

/* The tenant within which the caller runs, if there is one. */
static int find_outer(struct admin *a, struct tenant_spec *spec, const char *outer,
		      struct fault *why)
{
	spec->outer = nested_find(a->daemon, outer, a->pid, a->started);
	if (*outer && !spec->outer)
		return fault_set(why, -EREMOTE,
				 "%.100s: this runs within a tenant of another meted", outer);
	/* Its socket is a secret: we do not reveal it to a peer that does not know it. */
	if (spec->outer && !admin_may_change(a, spec->outer) &&
	    strcmp(spec->outer->socket, outer) != 0)
		return fault_set(
			why, *outer ? -EREMOTE : -EPERM,
			"this runs within tenant %u (%.60s), which belongs to user %s: "
			"METE_SOCKET, which is needed to join it, is not in the environment",
			spec->outer->id, spec->outer->name, user_name(spec->outer->owner).text);
	return 0;
}

static int choose_devices(const struct daemon *d, struct tenant_spec *spec, struct fault *why)
{
	if (spec->outer && !spec->devices)
		outer_devices(spec);
	if (spec->outer)
		return within_devices(spec, d, why);
	if (!spec->devices) {
		spec->devices = 1;
		spec->device[0] = emptiest(d);
	}
	return 0;
}

static int make_new(struct admin *a, uint32_t id, struct tenant_spec *spec, struct fault *why)
{
	char name[WIRE_TEXT_MAX + 1], note[WIRE_TEXT_MAX + 1];
	struct daemon *d = a->daemon;
	struct tenant_spec named;
	struct terms_texts room;
	struct tenant *t = NULL;
	/* A tenant within another one is not new on the device. */
	int r = spec->outer ? nested_admit(spec->outer, why)
			    : cordon_check(d, spec->device, spec->devices, why);

	if (r == 0 && a->user)
		r = terms_admit(a->user, spec, &room, why);
	if (r == 0)
		r = promise_new(d, spec, why);
	if (r < 0)
		return r;
	choose_name(d, spec->name, name);
	named = *spec;
	named.name = name;
	r = tenant_make(d, &named, &t, why);
	if (r < 0 || !t)
		return r;
	best_effort(admin_keep(a, t, why));
	recorder_tenant(t);
	nested_note(t, note, sizeof(note));
	if (!*note)
		note_movement(t, spec, note, sizeof(note));
	answer_made(a, id, t, false, note);
	return 0;
}

static int make(struct admin *a, uint32_t id, struct tenant_spec *spec, const char *outer,
		struct fault *why)
{
	int r = find_outer(a, spec, outer, why);

	if (r == 0)
		r = choose_devices(a->daemon, spec, why);
	if (r < 0)
		return r;
	/* Only the outer tenant's owner may create one within it. */
	if (spec->outer && (!admin_may_change(a, spec->outer) || !is_part(a->daemon, spec)))
		return join(a, id, spec, why);
	return make_new(a, id, spec, why);
}

void admin_make(struct admin *a, uint32_t id, const struct wire_tenant_new *said)
{
	struct tenant_spec spec = {.owner = a->uid, .name = said->name.text};
	struct fault why;
	int r;

	read_share(said, &spec);
	r = pick_devices(a->daemon, said->device.text, &spec, &why);
	if (r == 0)
		r = admin_make_place(a, &why);
	if (r == 0)
		r = make(a, id, &spec, said->outer.text, &why);
	if (r < 0)
		peer_refuse(&a->peer, id,
			    r == -EREMOTE ? WIRE_REFUSED_IDENTITY : WIRE_REFUSED_VALUE, "%s",
			    why.text);
}
