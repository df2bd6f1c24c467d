/* SPDX-License-Identifier: Apache-2.0 */
/* Rights of those who say a token, with a cluster and a clock of the test's own. */
#pragma once

#include "page/rights.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/no_boards.h"
#include "tests/test.h"

enum { OWNER = 4711, QUESTIONS = 128, SECOND = 1000000000 };

uint64_t __wrap_loop_now_ns(void);

static uint64_t now_ns = (uint64_t)1000 * SECOND;

/* A question under way. */
struct right_asked {
	right_told *told; /* NULL: it is free */
	void *owner;
	uint64_t since_ns;
	char said[64]; /* the token, or RESOURCE NAMESPACE/NAME */
	bool who;
};

static struct right_asked asked[QUESTIONS];
static struct loop loop;
static struct looks looks;
static struct rights_table table;
static uint32_t settled, namespaces;
static const char *const *tenants; /* their names, NULL behind them; NULL: one in each namespace */

uint64_t __wrap_loop_now_ns(void)
{
	return now_ns;
}

static int put(right_told *told, void *owner, bool is_who, const char *said,
	       struct right_asked **ret_asked)
{
	for (size_t i = 0; i < QUESTIONS; i++) {
		if (asked[i].told)
			continue;
		asked[i] = (struct right_asked){
			.told = told, .owner = owner, .since_ns = now_ns, .who = is_who};
		snprintf(asked[i].said, sizeof(asked[i].said), "%s", said);
		*ret_asked = &asked[i];
		return 0;
	}
	return -ENOMEM;
}

static int who(struct daemon *d, const char *token, const char *audience, right_told *told,
	       void *owner, struct right_asked **ret_asked)
{
	(void)d;
	(void)audience;
	return put(told, owner, true, token, ret_asked);
}

static int may(struct daemon *d, const char *user, const struct right *right, right_told *told,
	       void *owner, struct right_asked **ret_asked)
{
	char said[64];

	(void)d;
	(void)user;
	snprintf(said, sizeof(said), "%s %s/%s", right->resource,
		 right->of_node ? "node" : right->namespace, right->name ? right->name : "");
	return put(told, owner, false, said, ret_asked);
}

static void forget(struct daemon *d, struct right_asked *one)
{
	(void)d;
	if (one)
		one->told = NULL;
}

static void rows(struct daemon *d, void (*row)(void *owner, const struct wire_message *row),
		 void *owner)
{
	(void)d;
	for (uint32_t i = 0; tenants ? tenants[i] != NULL : i < namespaces; i++) {
		struct wire_message tenant = {.code = WIRE_tenant_row};
		char name[64];

		snprintf(name, sizeof(name), "n%u/pod/main", i);
		tenant.tenant_row = (struct wire_tenant_row){.tenant = i + 1, .owner = OWNER};
		snprintf(tenant.tenant_row.name.text, sizeof(tenant.tenant_row.name.text), "%s",
			 tenants ? tenants[i] : name);
		row(owner, &tenant);
	}
}

static void freshen(struct daemon *d)
{
	(void)d;
}

static void tell(struct daemon *d, struct wire_admin_welcome *ret_said)
{
	(void)d;
	*ret_said = (struct wire_admin_welcome){.pid = 1};
}

static void events(struct daemon *d, uint64_t after,
		   void (*event)(void *owner, const struct wire_event_row *event), void *owner)
{
	(void)d;
	(void)after;
	(void)event;
	(void)owner;
}

static const struct page_host host = {.loop = &loop,
				      .owner = OWNER,
				      .believed_ns = (uint64_t)3600 * SECOND,
				      .rows = rows,
				      .events = events,
				      .freshen = freshen,
				      .want_boards = want_boards,
				      .board = board,
				      .boards_since_ns = boards_since_ns,
				      .tell = tell,
				      .who = who,
				      .may = may,
				      .forget = forget};

static void on_settled(void *owner)
{
	(void)owner;
	settled++;
}

static void on_closed(struct loop_timer *timer)
{
	(void)timer;
}

static void begin(uint32_t with_namespaces)
{
	memset(asked, 0, sizeof(asked));
	namespaces = with_namespaces;
	settled = 0;
	expect_eq(loop_init(&loop), 0);
	expect_eq(looks_open(&looks, &host), 0);
	rights_open(&table, &looks, on_settled, NULL);
}

static void end(void)
{
	rights_close(&table);
	for (size_t i = 0; i < QUESTIONS; i++)
		expect(!asked[i].told); /* nobody would hear it */
	looks_close(&looks, on_closed);
	loop_done(&loop);
}

static void answer(struct right_asked *one, int r)
{
	right_told *told = take(one->told);
	char name[64];

	/* "alice-2" is a token of alice's. */
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(one->said, "-"), one->said);
	told(one->owner, r, name, name);
}
