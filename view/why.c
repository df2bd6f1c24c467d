/* SPDX-License-Identifier: Apache-2.0 */
#include "view/why.h"

#include <stdarg.h>
#include <string.h>

#include "base/least.h"
#include "core/doing.h"
#include "wire/page.h"

enum { NAMED_MOST = 3 };

static const uint64_t minute_ns = 60000000000;

struct teller {
	const struct ps_rows *rows;
	const struct wire_tenant_row *of;
	void (*say)(void *owner, const char *sentence);
	void *owner;
};

static void tell(const struct teller *to, const char *format, ...) printf_like(2, 3);

static void tell(const struct teller *to, const char *format, ...)
{
	char sentence[2 * WIRE_TEXT_MAX + 600];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	to->say(to->owner, sentence);
}

static const struct wire_tenant_row *tenant_at(const struct ps_rows *rows, size_t i)
{
	return rows->row[i].code == WIRE_tenant_row ? &rows->row[i].tenant_row : NULL;
}

static bool is_beside(const struct wire_tenant_row *other, const struct wire_tenant_row *t)
{
	return other && other->device == t->device && other->tenant != t->tenant;
}

/* In the unit of `mete ps`, so that both say the same. */
static struct ps_text amount(const struct teller *to, uint64_t bytes, enum text_rounding rounding)
{
	struct ps_unit unit = ps_unit(to->rows);
	struct ps_text said = {""};

	snprintf(said.text, sizeof(said.text), "%.60s %s",
		 ps_amount(unit, ps_steps(unit, bytes, rounding)).text, unit.name);
	return said;
}

static uint64_t free_of(const struct teller *to)
{
	return ps_free(to->rows, ps_device(to->rows, to->of->device));
}

static void explain_time(const struct teller *to)
{
	const struct wire_tenant_row *t = to->of;
	uint64_t over = least(t->age, minute_ns);

	if (t->governed && over)
		tell(to, "It had %u %% of GPU %u's time within the last %s, and was due %u %%.",
		     (unsigned)(100 * t->charged_60s / over), t->device,
		     over == minute_ns ? "minute" : ps_duration(over).text,
		     (unsigned)(100 * t->entitled_60s / over));
}

/* The tenant that has the turn, and how many want it. */
static void explain_turn(const struct teller *to)
{
	unsigned waiting = 0;

	for (size_t i = 0; i < to->rows->count; i++) {
		const struct wire_tenant_row *other = tenant_at(to->rows, i);

		if (!is_beside(other, to->of))
			continue;
		waiting += other->doing == DOING_TURN;
		if (other->doing == DOING_COMPUTES || other->doing == DOING_KERNEL)
			tell(to, "%s (tenant %u) has its turn now.", other->name.text,
			     other->tenant);
	}
	if (waiting)
		tell(to, "%u other%s wait%s for a turn, too.", waiting, waiting == 1 ? "" : "s",
		     waiting == 1 ? "s" : "");
	explain_time(to);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t on_device(const struct wire_tenant_row *t)
{
	return t->resident + t->residual;
}

/* The largest of its neighbours that is smaller than `below`, or as large and listed after it. */
static const struct wire_tenant_row *next_largest(const struct teller *to,
						  const struct wire_tenant_row *below)
{
	const struct wire_tenant_row *best = NULL;

	for (size_t i = 0; i < to->rows->count; i++) {
		const struct wire_tenant_row *other = tenant_at(to->rows, i);

		if (!is_beside(other, to->of) || !on_device(other))
			continue;
		if (below && (on_device(other) > on_device(below) ||
			      (on_device(other) == on_device(below) && other <= below)))
			continue;
		if (!best || on_device(other) > on_device(best))
			best = other;
	}
	return best;
}

/* Of what is on the device, what `mete suspend` or a turn of others moves off it. */
static uint64_t can_leave(const struct wire_tenant_row *t)
{
	return least(t->movable, t->resident);
}

static void name_holder(const struct teller *to, const struct wire_tenant_row *one)
{
	struct ps_text held = amount(to, on_device(one), TEXT_UP);

	if (can_leave(one))
		tell(to, "%s (tenant %u) holds %.60s of it, of which %.60s can leave.",
		     one->name.text, one->tenant, held.text,
		     amount(to, can_leave(one), TEXT_DOWN).text);
	else
		tell(to, "%s (tenant %u) holds %.60s of it, which cannot leave.", one->name.text,
		     one->tenant, held.text);
}

/* The tenants that hold most of the device. */
static void name_holders(const struct teller *to)
{
	const struct wire_tenant_row *one = next_largest(to, NULL);

	for (unsigned n = 0; one && n < NAMED_MOST; n++) {
		name_holder(to, one);
		one = next_largest(to, one);
	}
	if (ps_outside(to->rows, to->of->device))
		tell(to, "Processes outside of mete hold %s.",
		     amount(to, ps_outside(to->rows, to->of->device), TEXT_UP).text);
}

/* Whether all that can leave makes room for so much. Where some tenants are not among the rows,
 * theirs may, too. */
static bool may_fit(const struct teller *to, uint64_t bytes)
{
	uint64_t known = on_device(to->of), room = free_of(to);

	for (size_t i = 0; i < to->rows->count; i++) {
		const struct wire_tenant_row *other = tenant_at(to->rows, i);

		if (!is_beside(other, to->of))
			continue;
		known += on_device(other);
		room += can_leave(other);
	}
	return room >= bytes || known < ps_used(ps_device(to->rows, to->of->device));
}

/* A request beyond the tenant's own limit does not wait: it is refused. */
static void explain_room(const struct teller *to)
{
	const struct wire_tenant_row *t = to->of;
	struct ps_text most = ps_field(&t->share, "wait");

	tell(to, "It asks for %.60s, and GPU %u has %.60s free.",
	     amount(to, t->wanted, TEXT_UP).text, t->device,
	     amount(to, free_of(to), TEXT_DOWN).text);
	name_holders(to);
	if (may_fit(to, t->wanted))
		tell(to, "It goes on once so much is free; `mete suspend` of a tenant whose memory "
			 "can leave makes room at once.");
	else
		tell(to, "It goes on once others free so much, or end.");
	if (strcmp(most.text, "0s") != 0)
		tell(to, "It is refused when it has waited for %.60s (wait).", most.text);
}

static void explain_memory(const struct teller *to)
{
	const struct wire_tenant_row *t = to->of;

	tell(to, "%.60s of its memory is in the host's memory, and GPU %u has %.60s free.",
	     amount(to, t->out, TEXT_UP).text, t->device, amount(to, free_of(to), TEXT_DOWN).text);
	name_holders(to);
	if (t->doing == DOING_YIELDS)
		return;
	if (t->out <= free_of(to))
		tell(to, "There is room for it: it is being moved back.");
	else if (may_fit(to, t->out))
		tell(to,
		     "It comes back when those whose memory can leave give way, which they do for "
		     "a while each, as moving takes time; `mete suspend` of one makes room at "
		     "once.");
	else
		tell(to, "It comes back once others free so much, or end: what can leave is not "
			 "enough.");
}

/* ---- all of it ------------------------------------------------------------------------------- */

static const struct {
	bool waits;
	void (*explain)(const struct teller *to);
	const char *hint;
} whys[DOING_STATES] = {
#define WHY(NAME, waits, explain, hint) [DOING_##NAME] = {waits, explain, hint},
#include "view/why_words.def"
#undef WHY
};

/* The hint with the tenant's name, and the node, in the command that it suggests. */
static void tell_hint(const struct teller *to, const char *hint)
{
	const char *node = to->rows->node, *gap = strstr(hint, "%s");

	if (!gap)
		tell(to, "%s", hint);
	else
		tell(to, "%.*s%s%s%s%s%s", (int)(gap - hint), hint, node ? "--node " : "",
		     node ? node : "", node ? " " : "", to->of->name.text, gap + 2);
}

static uint32_t doing_in(const struct wire_tenant_row *t)
{
	return t->doing < DOING_STATES ? t->doing : DOING_UNKNOWN;
}

bool why_waits(const struct wire_tenant_row *tenant)
{
	return whys[doing_in(tenant)].waits;
}

void why_head(const struct ps_rows *rows, const struct wire_tenant_row *tenant,
	      void (*say)(void *owner, const char *sentence), void *owner)
{
	const struct teller to = {rows, tenant, say, owner};
	int bad;

	tell(&to, "%s (tenant %u) on GPU %u: %s.", tenant->name.text, tenant->tenant,
	     tenant->device, ps_state(rows, tenant, &bad).text);
}

void why_say(const struct ps_rows *rows, const struct wire_tenant_row *tenant,
	     void (*say)(void *owner, const char *sentence), void *owner)
{
	const struct teller to = {rows, tenant, say, owner};

	if (whys[doing_in(tenant)].explain)
		whys[doing_in(tenant)].explain(&to);
	if (whys[doing_in(tenant)].hint)
		tell_hint(&to, whys[doing_in(tenant)].hint);
}
