/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads claims from the API server, a few at a time. A node that starts has hundreds to prepare at
 * once: each with a connection of its own, they would all be late together. So the others wait, and
 * connections are used again.
 */
#include "plugin/dra/reading.h"

#include "plugin/dra/inside.h"

/* What the owner does with the answer may forget other readings. */
static void end(struct reading *reading, const char *problem, const cJSON *object)
{
	queue_leave(&reading->dra->queue, &reading->queued);
	reading->read(reading, problem, object);
}

static void on_claim(void *owner, int status, const char *problem, const cJSON *object)
{
	struct reading *reading = owner;
	struct dra *dra = reading->dra;

	(void)status;
	reading->asked = NULL;
	end(reading, problem, object);
	reading_continue(dra);
}

static int send_request(struct reading *reading, uint64_t within_ns)
{
	char path[700];
	struct api_request request = {.verb = "GET", .path = path, .within_ns = within_ns};

	snprintf(path, sizeof(path), "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s",
		 reading->namespace, reading->name);
	return api_ask(reading->dra->plugin->api, &request, on_claim, reading, &reading->asked);
}

static void begin(struct reading *reading)
{
	uint64_t within_ns = queue_within_ns(&reading->queued, loop_now_ns());
	const struct journal_claim *entry = journal_find(&reading->dra->journal, reading->uid);

	if (entry && prepare_is_done(entry))
		end(reading, NULL, NULL);
	else if (!within_ns)
		end(reading, "the API server was too slow with claims that were asked for earlier",
		    NULL);
	else if (send_request(reading, within_ns) < 0)
		end(reading, "out of memory", NULL);
}

void reading_continue(struct dra *dra)
{
	struct queued *next;

	while ((next = queue_next(&dra->queue)))
		begin(container_of(next, struct reading, queued));
}

void reading_ask(struct dra *dra, struct reading *reading)
{
	reading->dra = dra;
	queue_add(&dra->queue, &reading->queued, loop_now_ns());
	reading_continue(dra);
}

void reading_forget(struct reading *reading)
{
	if (!reading->dra)
		return;
	if (reading->asked)
		api_forget(take(reading->asked));
	queue_leave(&reading->dra->queue, &reading->queued);
}
