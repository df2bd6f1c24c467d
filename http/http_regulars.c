/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_regulars.h"

static const uint64_t second_ns = 1000000000;

static bool is_there(const struct http_regular *regular, uint64_t now_ns)
{
	return regular->answered_ns && now_ns - regular->answered_ns < HTTP_REGULAR_S * second_ns;
}

static struct http_regular *find(struct http_regulars *regulars, const struct http_host *host,
				 uint64_t now_ns)
{
	for (size_t i = 0; i < HTTP_REGULARS; i++)
		if (is_there(&regulars->regular[i], now_ns) &&
		    http_host_same(&regulars->regular[i].host, host))
			return &regulars->regular[i];
	return NULL;
}

static struct http_regular *find_free(struct http_regulars *regulars, uint64_t now_ns)
{
	for (size_t i = 0; i < HTTP_REGULARS; i++)
		if (!is_there(&regulars->regular[i], now_ns))
			return &regulars->regular[i];
	return NULL;
}

void http_regulars_note(struct http_regulars *regulars, const struct http_host *host,
			uint64_t now_ns)
{
	struct http_regular *regular = find(regulars, host, now_ns);

	if (!regular) {
		regular = find_free(regulars, now_ns);
		if (!regular)
			return;
		*regular = (struct http_regular){.host = *host};
	}
	regular->answered_ns = now_ns;
}

bool http_regulars_take(struct http_regulars *regulars, const struct http_host *host,
			uint64_t now_ns)
{
	struct http_regular *regular = find(regulars, host, now_ns);
	uint64_t from_ns;

	if (!regular)
		return false;
	from_ns = regular->full_ns > now_ns ? regular->full_ns : now_ns;
	if (from_ns + second_ns > now_ns + HTTP_REGULAR_BURST * second_ns)
		return false;
	regular->full_ns = from_ns + second_ns;
	return true;
}
