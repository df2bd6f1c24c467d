/* SPDX-License-Identifier: Apache-2.0 */
/* mete why: what a tenant waits for, in sentences. */
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/ps_fetch.h"
#include "core/doing.h"
#include "wire/page.h"

enum { NAMED_MOST = 3 };

static const uint64_t minute_ns = 60000000000;

static const struct wire_tenant_row *tenant_at(const struct ps_rows *rows, size_t i)
{
	return rows->row[i].code == WIRE_tenant_row ? &rows->row[i].tenant_row : NULL;
}

static bool is_beside(const struct wire_tenant_row *other, const struct wire_tenant_row *t)
{
	return other && other->device == t->device && other->tenant != t->tenant;
}

/* In the unit of `mete ps`, so that both say the same. */
static struct ps_text amount(const struct ps_rows *rows, uint64_t bytes,
			     enum text_rounding rounding)
{
	struct ps_unit unit = ps_unit(rows);
	struct ps_text said = {""};

	snprintf(said.text, sizeof(said.text), "%.60s %s",
		 ps_amount(unit, ps_steps(unit, bytes, rounding)).text, unit.name);
	return said;
}

static void explain_time(const struct ps_rows *rows, const struct wire_tenant_row *t)
{
	uint64_t over = t->age < minute_ns ? t->age : minute_ns;

	(void)rows;
	if (t->governed && over)
		printf("  It had %u %% of GPU %u's time within the last %s, and was due %u %%.\n",
		       (unsigned)(100 * t->charged_60s / over), t->device, ps_duration(over).text,
		       (unsigned)(100 * t->entitled_60s / over));
}

/* The tenant that has the turn, and how many want it. */
static void explain_turn(const struct ps_rows *rows, const struct wire_tenant_row *t)
{
	unsigned waiting = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_tenant_row *other = tenant_at(rows, i);

		if (!is_beside(other, t))
			continue;
		waiting += other->doing == DOING_TURN;
		if (other->doing == DOING_COMPUTES)
			printf("  %s (tenant %u) has its turn now.\n", other->name.text,
			       other->tenant);
	}
	if (waiting)
		printf("  %u other%s wait%s for a turn, too.\n", waiting, waiting == 1 ? "" : "s",
		       waiting == 1 ? "s" : "");
	explain_time(rows, t);
}

static uint64_t on_device(const struct wire_tenant_row *t)
{
	return t->resident + t->residual;
}

/* The largest of its neighbours that is smaller than `below`, or as large and listed after it. */
static const struct wire_tenant_row *next_largest(const struct ps_rows *rows,
						  const struct wire_tenant_row *t,
						  const struct wire_tenant_row *below)
{
	const struct wire_tenant_row *best = NULL;

	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_tenant_row *other = tenant_at(rows, i);

		if (!is_beside(other, t) || !on_device(other))
			continue;
		if (below && (on_device(other) > on_device(below) ||
			      (on_device(other) == on_device(below) && other <= below)))
			continue;
		if (!best || on_device(other) > on_device(best))
			best = other;
	}
	return best;
}

/* The tenants that hold most of the device. */
static void name_holders(const struct ps_rows *rows, const struct wire_tenant_row *t)
{
	const struct wire_tenant_row *one = next_largest(rows, t, NULL);

	for (unsigned n = 0; one && n < NAMED_MOST; n++) {
		printf("  %s (tenant %u) holds %s of it.\n", one->name.text, one->tenant,
		       amount(rows, on_device(one), TEXT_UP).text);
		one = next_largest(rows, t, one);
	}
	if (ps_outside(rows, t->device))
		printf("  Processes outside of mete hold %s.\n",
		       amount(rows, ps_outside(rows, t->device), TEXT_UP).text);
}

/* A request beyond the tenant's own limit does not wait: it is refused. */
static void explain_room(const struct ps_rows *rows, const struct wire_tenant_row *t)
{
	printf("  It asks for %s, and GPU %u has %s free.\n", amount(rows, t->wanted, TEXT_UP).text,
	       t->device, amount(rows, ps_free(rows, ps_device(rows, t->device)), TEXT_DOWN).text);
	name_holders(rows, t);
}

static void explain_memory(const struct ps_rows *rows, const struct wire_tenant_row *t)
{
	printf("  %s of its memory is in the host's memory, and GPU %u has %s free.\n",
	       amount(rows, t->out, TEXT_UP).text, t->device,
	       amount(rows, ps_free(rows, ps_device(rows, t->device)), TEXT_DOWN).text);
	name_holders(rows, t);
}

static const struct {
	bool waits;
	void (*explain)(const struct ps_rows *rows, const struct wire_tenant_row *t);
	const char *hint;
} whys[DOING_STATES] = {
#define WHY(NAME, waits, explain, hint) [DOING_##NAME] = {waits, explain, hint},
#include "cli/why_words.def"
#undef WHY
};

/* Adds the node to the suggested command. */
static void print_hint(const struct ps_rows *rows, const struct wire_tenant_row *t,
		       const char *hint)
{
	char who[WIRE_TEXT_MAX + REMOTE_NAME_MOST + 10];

	snprintf(who, sizeof(who), "%s%s%s%s", rows->node ? "--node " : "",
		 rows->node ? rows->node : "", rows->node ? " " : "", t->name.text);
	fputs("  ", stdout);
	printf(hint, who);
	putchar('\n');
}

static void print_tenant(const struct ps_rows *rows, const struct wire_tenant_row *t)
{
	uint32_t doing = t->doing < DOING_STATES ? t->doing : DOING_UNKNOWN;
	int bad;

	printf("%s (tenant %u) on GPU %u: %s.\n", t->name.text, t->tenant, t->device,
	       ps_state(rows, t, &bad).text);
	if (whys[doing].explain)
		whys[doing].explain(rows, t);
	if (whys[doing].hint)
		print_hint(rows, t, whys[doing].hint);
}

static bool is_meant(const struct wire_tenant_row *t, const char *who)
{
	char number[16];

	if (!who)
		return t->doing < DOING_STATES && whys[t->doing].waits;
	snprintf(number, sizeof(number), "%u", t->tenant);
	return strcmp(t->name.text, who) == 0 || strcmp(number, who) == 0;
}

int why_main(const struct cli_call *call)
{
	const char *who = call->argc ? call->argv[0] : NULL;
	owned(remote_close) struct remote remote = {.admin = {.fd = -1}};
	owned(ps_rows_free) struct ps_rows rows = {0};
	struct fault why;
	unsigned found = 0;

	if (call->argc > 1)
		return cli_complain(call, CLI_USAGE, "'%s': why takes one tenant, or none",
				    call->argv[1]);
	if (remote_read(&remote, call, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	if (ps_fetch_at(&remote, &rows, &why) < 0)
		return cli_fail(call, 1, &why);
	if (rows.absent && who)
		return cli_complain(call, 1, "no meted is running, so there is no tenant '%s'",
				    who);
	for (size_t i = 0; i < rows.count; i++) {
		const struct wire_tenant_row *t = tenant_at(&rows, i);

		if (!t || !is_meant(t, who))
			continue;
		print_tenant(&rows, t);
		found++;
	}
	if (found)
		return 0;
	if (who)
		return cli_complain(call, 1, "there is no tenant '%s'; mete ps%s%s lists them", who,
				    remote.node ? " --node " : "", remote.node ? remote.node : "");
	puts(rows.absent ? "no meted is running: nobody waits" : "nobody waits");
	return 0;
}
