/* SPDX-License-Identifier: Apache-2.0 */
/* The words of `mete ps`. */
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#include "base/process_look.h"
#include "base/text.h"
#include "core/doing.h"
#include "core/gate.h"
#include "core/share/share.h"
#include "view/ps_rows.h"
#include "wire/page.h"
#include "wire/wire.h"

struct ps_text ps_user(uint32_t uid)
{
	const struct passwd *user = uid == UINT32_MAX ? NULL : getpwuid(uid);
	struct ps_text said;

	if (uid == UINT32_MAX)
		return (struct ps_text){""};
	if (user)
		snprintf(said.text, sizeof(said.text), "%s", user->pw_name);
	else
		snprintf(said.text, sizeof(said.text), "%u", uid);
	text_make_plain(said.text);
	return said;
}

struct ps_text ps_user_of(const struct ps_rows *rows, uint32_t uid)
{
	return rows->names && uid != UINT32_MAX ? rows->names->user(rows->names->owner, uid)
						: ps_user(uid);
}

uint32_t ps_owner(uint32_t pid)
{
	struct stat process;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u", pid);
	return stat(path, &process) == 0 ? process.st_uid : UINT32_MAX;
}

struct ps_text ps_outside_command(const struct ps_rows *rows,
				  const struct wire_outside_row *outside)
{
	struct ps_text said = rows->names ? (struct ps_text){""} : ps_command(outside->pid);

	if (!said.text[0])
		snprintf(said.text, sizeof(said.text), "%s", outside->program.text);
	return said;
}

/* It lies in the process's own memory. A process of any user can hold the lock of that, or leave a
 * page out of it, for as long as it likes. */
static int read_command(uint32_t pid, char ret_bytes[LOOK_MOST])
{
	static struct looks *looks; /* until we end */
	char path[LOOK_PATH];

	if (!looks) {
		looks = looks_new();
		if (!looks)
			return -ENOMEM;
		looks_quiet(looks);
	}
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	return look_bytes(looks, (pid_t)pid, path, ret_bytes);
}

struct ps_text ps_command(uint32_t pid)
{
	struct ps_text said = {""};
	char line[LOOK_MOST];
	int read = read_command(pid, line);
	size_t size = read > 0 ? (size_t)read : 0;

	while (size && !line[size - 1])
		size--;
	if (size >= sizeof(said.text))
		size = sizeof(said.text) - 1;
	for (size_t i = 0; i < size; i++)
		said.text[i] = (char)(line[i] ? line[i] : ' ');
	said.text[text_fit(said.text, size)] = '\0';
	text_make_plain(said.text);
	return said;
}

struct ps_text ps_guest_command(const struct ps_rows *rows, const struct wire_guest_row *guest)
{
	return rows->names ? (struct ps_text){""} : ps_command(guest->pid);
}

struct ps_text ps_tenant_command(const struct ps_rows *rows, const struct wire_tenant_row *tenant)
{
	struct ps_text said =
		tenant->pid && !rows->names ? ps_command(tenant->pid) : (struct ps_text){""};

	/* With another container's /proc, or with hidepid, the guest's own report has to suffice.
	 */
	for (size_t i = 0; i < rows->count && !said.text[0]; i++) {
		const struct wire_guest_row *guest = &rows->row[i].guest_row;

		if (rows->row[i].code == WIRE_guest_row && guest->tenant == tenant->tenant)
			snprintf(said.text, sizeof(said.text), "%s", guest->program.text);
	}
	return said;
}

struct ps_text ps_duration(uint64_t ns)
{
	unsigned long long s = ns / 1000000000;
	struct ps_text said;

	if (s < 60)
		snprintf(said.text, sizeof(said.text), "%llu s", s);
	else if (s < 3600)
		snprintf(said.text, sizeof(said.text), "%llu min", s / 60);
	else if (s < 86400)
		snprintf(said.text, sizeof(said.text), "%llu h %02llu min", s / 3600, s / 60 % 60);
	else
		snprintf(said.text, sizeof(said.text), "%llu d %llu h", s / 86400, s / 3600 % 24);
	return said;
}

struct ps_text ps_wait(double ns)
{
	struct ps_text said;

	if (ns < 1e9)
		snprintf(said.text, sizeof(said.text), "%.2f ms", ns / 1e6);
	else
		snprintf(said.text, sizeof(said.text), "%.1f s", ns / 1e9);
	return said;
}

/* The value of KEY=VALUE among words with blanks between them. */
static bool find_word(const char *words, const char *key, struct ps_text *ret)
{
	size_t n = strlen(key);

	for (; *words; words += strcspn(words, " "), words += strspn(words, " ")) {
		if (strncmp(words, key, n) != 0 || words[n] != '=')
			continue;
		snprintf(ret->text, sizeof(ret->text), "%.*s", (int)strcspn(words + n + 1, " "),
			 words + n + 1);
		return true;
	}
	return false;
}

/* The value that a mode implies for a field that was not set after it. */
static struct ps_text by_mode(const char *mode, const char *key)
{
	struct ps_text said = {""};
	struct share share;
	uint32_t milli;

	share_init(&share);
	best_effort(share_set(&share, "mode", mode));
	milli = strcmp(key, "cap") == 0 ? share.cap_milli : share.guarantee_milli;
	if (strcmp(key, "weight") == 0)
		snprintf(said.text, sizeof(said.text), "%u", share.weight);
	else
		snprintf(said.text, sizeof(said.text), "%g%%", milli / 10.0);
	return said;
}

struct ps_text ps_field(const wire_text *share, const char *key)
{
	struct ps_text said = {""}, mode;

	if (find_word(share->text, key, &said))
		return said;
	if (share_includes("mode", key) && find_word(share->text, "mode", &mode))
		return by_mode(mode.text, key);
	snprintf(said.text, sizeof(said.text), "%s", share_default(key));
	return said;
}

struct words {
	struct ps_text text;
	int bad;
};

/* Adds one more reason. */
static void say(struct words *words, int bad, const char *format, ...) printf_like(3, 4);

static void say(struct words *words, int bad, const char *format, ...)
{
	size_t used = strlen(words->text.text);
	va_list arguments;

	if (used)
		used += (size_t)snprintf(words->text.text + used, sizeof(words->text.text) - used,
					 ", ");
	if (used >= sizeof(words->text.text))
		used = sizeof(words->text.text) - 1;
	va_start(arguments, format);
	vsnprintf(words->text.text + used, sizeof(words->text.text) - used, format, arguments);
	va_end(arguments);
	if (bad > words->bad)
		words->bad = bad;
}

static void say_memory(struct words *words, const struct ps_rows *rows,
		       const struct wire_tenant_row *t)
{
	struct ps_unit unit = ps_unit(rows);
	uint64_t limit = ps_steps(unit, t->limit, TEXT_DOWN);

	if (t->over)
		say(words, 2, "over its limit by %s %s",
		    ps_amount(unit, ps_steps(unit, t->limit + t->over, TEXT_UP) - limit).text,
		    unit.name);
	if (t->expected)
		say(words, 1, "%u %s not reconnected since meted restarted", t->expected,
		    t->expected == 1 ? "process has" : "processes have");
	else if (!t->guests && ps_has_within(rows, t))
		say(words, 0, "no process but those of tenants within it");
	else if (!t->guests)
		say(words, 1, t->joins ? "no process now" : "no process has joined yet");
}

/* In most of these cases the program itself has asked for it. */
static const char *unmovable(uint32_t why)
{
	static const struct {
		uint32_t why;
		const char *name;
	} names[] = {
		{WIRE_UNMOVABLE_STORE, "this meted has no store"},
		{WIRE_UNMOVABLE_DEVICES, "the tenant has several devices"},
		{WIRE_UNMOVABLE_DRIVER, "the driver cannot map memory"},
		{WIRE_UNMOVABLE_FAILED, "a copy of it failed"},
		{WIRE_UNMOVABLE_PROCESS, "of what the program has loaded or opened"},
		{WIRE_UNMOVABLE_SHARED, "it is shared with other processes"},
		{WIRE_UNMOVABLE_OWN, "the program maps it itself"},
		{WIRE_UNMOVABLE_POOL, "it is a pool's"},
		{WIRE_UNMOVABLE_GRAPH, "graphs allocate it"},
		{WIRE_UNMOVABLE_ARRAY, "it is in arrays"},
		{WIRE_UNMOVABLE_MANAGED, "it is managed memory"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (why & names[i].why)
			return names[i].name;
	return NULL;
}

static void say_movement(struct words *words, const struct ps_rows *rows,
			 const struct wire_tenant_row *t)
{
	struct ps_unit unit = ps_unit(rows);
	struct ps_text out = ps_amount(unit, ps_steps(unit, t->out, TEXT_UP));
	uint64_t here = t->allocated - (t->out < t->allocated ? t->out : t->allocated);
	uint64_t fixed = here - (t->movable < here ? t->movable : here);
	const char *why = unmovable(t->unmovable);

	if (t->unmovable & WIRE_UNMOVABLE_HOST)
		say(words, 2, "the host has no memory for what is to leave");
	else if (t->stuck)
		say(words, 2, "its memory does not move as it was told");
	if (t->kept)
		say(words, 2, "it keeps %s %s of the store that it was told to give back",
		    ps_amount(unit, ps_steps(unit, t->kept, TEXT_UP)).text, unit.name);
	if (t->out)
		say(words, 0, "%s %s in the host's memory", out.text, unit.name);
	if (t->oversize)
		say(words, 0, "%s %s managed, beyond what its device has",
		    ps_amount(unit, ps_steps(unit, t->oversize, TEXT_UP)).text, unit.name);
	/* Only for a tenant whose memory moves, or would move but for that reason. */
	if (why && fixed && (t->movable || t->out || (t->unmovable & WIRE_UNMOVABLE_ALL)))
		say(words, 0, "%s %s cannot move: %s",
		    ps_amount(unit, ps_steps(unit, fixed, TEXT_UP)).text, unit.name, why);
}

/* " for 12 s"; "" for less than a second. */
static struct ps_text for_how_long(uint64_t ns)
{
	struct ps_text said = {""};

	if (ns >= 1000000000)
		snprintf(said.text, sizeof(said.text), " for %.60s", ps_duration(ns).text);
	return said;
}

/* " for 12 min"; "" for less than a minute, which is no news, and as exactly as a look every few
 * seconds knows. */
static struct ps_text for_minutes(uint64_t ns)
{
	return for_how_long(ns >= 60000000000 ? ns : 0);
}

static void say_room(struct words *words, const struct ps_rows *rows,
		     const struct wire_tenant_row *t)
{
	struct ps_unit unit = ps_unit(rows);

	say(words, 1, "waits for %s %s for %s",
	    ps_amount(unit, ps_steps(unit, t->wanted, TEXT_UP)).text, unit.name,
	    ps_duration(t->lasting).text);
}

/* "waits for its memory for 12 s: tenant 3 (train) does not make room" */
static void say_wait(struct words *words, const struct ps_rows *rows,
		     const struct wire_tenant_row *t)
{
	const struct wire_tenant_row *by = ps_tenant(rows, t->behind);

	if (!t->behind)
		return say(words, 0, "%s%s", gate_words(GATE_MEMORY),
			   for_how_long(t->lasting).text);
	say(words, 2, "%s%s: tenant %u%s%.60s%s %s", gate_words(GATE_MEMORY),
	    for_how_long(t->lasting).text, t->behind, by ? " (" : "", by ? by->name.text : "",
	    by ? ")" : "",
	    by && (by->unmovable & WIRE_UNMOVABLE_HOST)
		    ? "cannot make room, as the host has no memory"
		    : "does not make room");
}

/* "parked: a higher class needs the room for 12 s: train" */
static void say_yields(struct words *words, const struct ps_rows *rows,
		       const struct wire_tenant_row *t)
{
	const struct wire_tenant_row *by = ps_tenant(rows, t->behind);

	say(words, 0, "%s%s%s%.60s", gate_words(GATE_YIELDS), for_how_long(t->lasting).text,
	    by ? ": " : "", by ? by->name.text : "");
}

/* For a tenant without processes say_memory() has the words. */
static void say_doing(struct words *words, const struct ps_rows *rows,
		      const struct wire_tenant_row *t)
{
	switch ((enum doing)t->doing) {
#define SAID(NAME, bad, ...)                                                                       \
	case DOING_##NAME:                                                                         \
		return say(words, bad, __VA_ARGS__);
#include "view/doing_words.def"
#undef SAID
	case DOING_ROOM:
		return say_room(words, rows, t);
	case DOING_MEMORY:
		return say_wait(words, rows, t);
	case DOING_YIELDS:
		return say_yields(words, rows, t);
	case DOING_UNKNOWN:
	case DOING_ABSENT:
	case DOING_RUNNING:
	case DOING_STATES:
		return;
	}
}

/* Reasons of a gate that is not open, if doing does not imply them. */
static void say_gate(struct words *words, const struct wire_tenant_row *t)
{
	/* It may have closed since: at a suspension its work is waited for. */
	if (t->coupled && t->gate != WIRE_GATE_CLOSED)
		say(words, 1, "coupled: its gate could not be closed");
	for (uint32_t i = GATE_SHUT; i <= GATE_UNHEARD; i++)
		if (gate_has(t->reasons, i) && t->guests)
			say(words, 1, "%s", gate_words(i));
}

struct ps_text ps_state(const struct ps_rows *rows, const struct wire_tenant_row *tenant,
			int *ret_bad)
{
	struct words words = {.bad = 0};

	say_memory(&words, rows, tenant);
	say_doing(&words, rows, tenant);
	say_movement(&words, rows, tenant);
	say_gate(&words, tenant);
	if (!words.text.text[0])
		say(&words, 0, "running");
	if (tenant->refusals)
		say(&words, 1, "refused memory %llu time%s", (unsigned long long)tenant->refusals,
		    tenant->refusals == 1 ? "" : "s");
	if (tenant->unknown_functions)
		say(&words, 1, "%llu calls to functions newer than mete",
		    (unsigned long long)tenant->unknown_functions);
	*ret_bad = words.bad;
	text_make_plain(words.text.text); /* names may be cut in the middle of a character */
	return words.text;
}

struct ps_text ps_picked(const struct wire_device_row *device)
{
	struct ps_text said = {""};

	if (!device->picker)
		return said;
	if (!device->hold)
		snprintf(said.text, sizeof(said.text), "picked by %u %.300s", device->picker,
			 ps_command(device->picker).text);
	else
		snprintf(said.text, sizeof(said.text), "picked, kept for %.60s",
			 ps_duration(device->hold + 999999999).text);
	return said;
}
