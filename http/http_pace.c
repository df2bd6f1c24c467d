/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_pace.h"

/* May one be taken, so that `left` remain? */
static bool has(const struct http_rate *rate, uint64_t full_ns, uint32_t left, uint64_t now_ns)
{
	uint64_t from_ns = full_ns > now_ns ? full_ns : now_ns;

	return from_ns + (left + 1) * rate->each_ns <= now_ns + rate->burst * rate->each_ns;
}

static void take_one(const struct http_rate *rate, uint64_t *full_ns, uint64_t now_ns)
{
	*full_ns = (*full_ns > now_ns ? *full_ns : now_ns) + rate->each_ns;
}

static struct http_pace *find(struct http_paces *paces, const struct http_asker *asker)
{
	for (size_t i = 0; i < HTTP_PACES; i++)
		if (paces->pace[i].full_ns && paces->pace[i].of.part == asker->part &&
		    http_host_same(&paces->pace[i].of.host, &asker->host))
			return &paces->pace[i];
	return NULL;
}

/* A new one replaces the one that is forgotten with the least loss. */
static struct http_pace *find_or_make(struct http_paces *paces, const struct http_asker *asker)
{
	struct http_pace *pace = find(paces, asker);

	if (pace)
		return pace;
	pace = &paces->pace[0];
	for (size_t i = 1; i < HTTP_PACES; i++)
		if (paces->pace[i].full_ns < pace->full_ns)
			pace = &paces->pace[i];
	*pace = (struct http_pace){.of = *asker};
	return pace;
}

static uint64_t full_of(struct http_paces *paces, const struct http_asker *asker)
{
	const struct http_pace *pace = find(paces, asker);

	return pace ? pace->full_ns : 0;
}

bool http_paces_take(struct http_paces *paces, const struct http_asker *asker, uint64_t now_ns)
{
	const struct http_asker itself = {.host = asker->host};
	uint64_t host_ns = full_of(paces, &itself);
	uint64_t part_ns = asker->part ? full_of(paces, asker) : 0;
	/* A host may make up parts: a new part is new within its host only. */
	bool new_part = asker->part && part_ns <= now_ns, new_host = host_ns <= now_ns;

	if (!has(&paces->all, paces->full_ns, new_host ? 0 : paces->all.burst / 2, now_ns))
		return false;
	if (!has(&paces->host, host_ns, asker->part && !new_part ? paces->host.burst / 2 : 0,
		 now_ns))
		return false;
	if (asker->part && !has(&paces->part, part_ns, 0, now_ns))
		return false;
	take_one(&paces->all, &paces->full_ns, now_ns);
	take_one(&paces->host, &find_or_make(paces, &itself)->full_ns, now_ns);
	if (asker->part)
		take_one(&paces->part, &find_or_make(paces, asker)->full_ns, now_ns);
	return true;
}
