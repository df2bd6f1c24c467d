/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads claims from the API server. A node that starts has hundreds to prepare at once: a request
 * for each would keep the server busy longer than everything else that the claims need. So those
 * that arrive together are read by one list of their namespace; a list is read from the server's
 * memory, and is as recent as a claim that is read by itself; one that is long is given up for
 * single reads. Connections are used again.
 */
#include "plugin/dra/reading.h"

#include <string.h>

#include "kube/json.h"
#include "plugin/dra/inside.h"

/* A request. */
struct batch {
	struct queue_batch queued;
	struct dra *dra;
	struct api_asked *asked; /* NULL: it is not under way, and the batch is kept by its user */
};

static struct reading *first_of(const struct batch *batch)
{
	return container_of(list_entry(batch->queued.claims.next, struct queued, link),
			    struct reading, queued);
}

/* What the owner does with the answer may forget other readings. */
static void end(struct reading *reading, const char *problem, const cJSON *object)
{
	queue_leave(&reading->queued);
	reading->read(reading, problem, object);
}

static void close_batch(struct batch *batch)
{
	queue_end(&batch->dra->queue, &batch->queued);
	free(batch);
}

static void on_claim(void *owner, int status, const char *problem, const cJSON *object)
{
	struct batch *batch = owner;
	struct dra *dra = batch->dra;

	(void)status;
	batch->asked = NULL;
	end(first_of(batch), problem, object);
	close_batch(batch);
	/* After what this brought has been prepared: others may ask for the same. */
	loop_arm(&dra->soon, 0);
}

static struct reading *find(const struct batch *batch, const char *uid)
{
	list_for_each(link, (struct list *)&batch->queued.claims)
	{
		struct reading *reading =
			container_of(list_entry(link, struct queued, link), struct reading, queued);

		if (strcmp(reading->uid, uid) == 0)
			return reading;
	}
	return NULL;
}

/* The server has more to do than it can, and single reads would be more of that. The kubelet asks
 * again, with growing pauses. */
static bool is_overload(int status)
{
	return status == 429 || status >= 500;
}

/* What it does not have is read one by one, or all if it cannot be read: then each has an answer of
 * its own. */
static void on_list(void *owner, int status, const char *problem, const cJSON *object)
{
	struct batch *batch = owner;
	struct dra *dra = batch->dra;
	const cJSON *items = cJSON_GetObjectItemCaseSensitive(object, "items"), *item;

	batch->asked = NULL;
	while (is_overload(status) && batch->queued.count)
		end(first_of(batch), problem, NULL);
	/* A refusal is a Status, which has none. */
	cJSON_ArrayForEach(item, items)
	{
		const char *uid =
			json_text(cJSON_GetObjectItemCaseSensitive(item, "metadata"), "uid");
		struct reading *reading = uid ? find(batch, uid) : NULL;

		if (reading)
			end(reading, NULL, item);
	}
	close_batch(batch);
	/* After what this brought has been prepared: others may ask for the same. */
	loop_arm(&dra->soon, 0);
}

/* It is parsed in one go, while everything else on meted's loop waits. */
enum { LIST_MOST = 1 << 20 };

#define CLAIMS "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims"

static int send_request(struct batch *batch, uint64_t within_ns)
{
	const struct reading *first = first_of(batch);
	uint32_t count = batch->queued.count;
	char path[700];
	struct api_request request = {.verb = "GET", .path = path, .within_ns = within_ns};

	if (count == 1)
		snprintf(path, sizeof(path), CLAIMS "/%s", first->namespace, first->name);
	else {
		snprintf(path, sizeof(path), CLAIMS "?limit=%u", first->namespace,
			 count * QUEUE_LISTED_EACH);
		request.most_bytes = LIST_MOST;
	}
	return api_ask(batch->dra->plugin->api, &request, count == 1 ? on_claim : on_list, batch,
		       &batch->asked);
}

/* Need the first of the batch not be read? */
static bool is_needless(const struct reading *reading, const char **ret_problem)
{
	const struct journal_claim *entry = journal_find(&reading->dra->journal, reading->uid);

	*ret_problem = NULL;
	if (entry && prepare_is_done(entry))
		return true;
	if (queue_within_ns(&reading->queued, loop_now_ns()))
		return false;
	*ret_problem = "the API server was too slow with claims that were asked for earlier";
	return true;
}

static struct reading *find_needless(const struct batch *batch, const char **ret_problem)
{
	list_for_each(link, (struct list *)&batch->queued.claims)
	{
		struct reading *reading =
			container_of(list_entry(link, struct queued, link), struct reading, queued);

		if (is_needless(reading, ret_problem))
			return reading;
	}
	return NULL;
}

static void begin(struct batch *batch)
{
	struct reading *reading;
	const char *problem;

	while ((reading = find_needless(batch, &problem)))
		end(reading, problem, NULL);
	/* The first one has waited longest. */
	if (batch->queued.count &&
	    send_request(batch, queue_within_ns(&first_of(batch)->queued, loop_now_ns())) == 0)
		return;
	while (batch->queued.count)
		end(first_of(batch), "out of memory", NULL);
	close_batch(batch);
}

void reading_continue(struct dra *dra)
{
	for (;;) {
		struct batch *batch = calloc(1, sizeof(*batch));

		/* Those that wait are read when there is memory, or another one is asked for. */
		if (!batch || !queue_next(&dra->queue, &batch->queued)) {
			free(batch);
			return;
		}
		batch->dra = dra;
		begin(batch);
	}
}

void reading_ask(struct dra *dra, struct reading *reading)
{
	reading->dra = dra;
	queue_add(&dra->queue, &reading->queued, reading->namespace, loop_now_ns());
	/* The others of a burst are about to be asked for, too. */
	loop_arm(&dra->soon, 0);
}

void reading_forget(struct reading *reading)
{
	struct batch *batch = reading->queued.batch
				      ? container_of(reading->queued.batch, struct batch, queued)
				      : NULL;

	queue_leave(&reading->queued);
	if (!batch || !batch->asked || batch->queued.count)
		return;
	api_forget(take(batch->asked));
	close_batch(batch);
}
