/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thing at a time: what an Allocate or a claim wants, or a look at what nobody has any more.
 * The driver is asked by a thread; what it has made is found by node/devices/divided.c, as if
 * somebody else had made it, and then the Allocate is answered as of any part.
 *
 * Who has a part is what the kubelet's record says, without pods that have ended, and which claims
 * are prepared. The record is written after Allocate is answered, so what was just given counts for
 * a while anyway. Where the record cannot be read, nothing is removed.
 */
#include <string.h>
#include <unistd.h>

#include "base/words.h"
#include "mig/place.h"
#include "mig/room.h"
#include "plugin/dra/slices.h"
#include "plugin/kubelet/allocated.h"
#include "plugin/nvidia/parts_inside.h"

enum {
	GIVEN_S = 10, /* within this the kubelet has written down what it was given */
	TRIES = 3,    /* looks at meted's devices, until a part that was made is one of them */
};

static void go_on(struct parts *parts);

bool parts_is_on(const struct parts *parts)
{
	const struct config *config = parts ? parts->plugin->config : NULL;

	return config && config_makes_parts(config);
}

bool parts_asks_for_pods(const struct parts *parts)
{
	return parts && (parts_is_on(parts) || parts->now.rows);
}

int parts_known(const struct parts *parts, const struct mig_part *part)
{
	int device = part->computes && *part->uuid[0]
			     ? host_find(parts->plugin->host, part->uuid[0])
			     : -1;

	return device >= 0 && !parts->plugin->host->device[device].gone ? device : -1;
}

/* ---- who has what --------------------------------------------------------------------------- */

/* What a container has though there is no such part: the machine was started anew. */
static void note_missing(struct parts *parts, const char *id)
{
	struct parts_job *job = &parts->job;
	struct mig_place_at at;

	if (parts->restored || job->wants == PARTS_ROWS || strlen(id) >= IDS_BYTES ||
	    mig_place_find(parts->now.gpu, parts->now.gpus, id, &at) < 0)
		return;
	snprintf(job->want[job->wants++], IDS_BYTES, "%.63s", id);
}

static void on_given(void *owner, const struct pod *pod, const char *uid, const char *id)
{
	struct parts *parts = owner;
	struct parts_row *row = parts_row(&parts->now, id);

	(void)pod;
	(void)uid;
	if (row) {
		if (row->given_ns)
			log_debug("parts.noted", "id=%s", id);
		row->busy = true;
		row->given_ns = 0; /* from now on the record counts */
	} else {
		note_missing(parts, id);
	}
}

/* By a name that ResourceSlices have. */
static void on_claimed(void *owner, const char *device)
{
	struct parts *parts = owner;

	for (uint32_t i = 0; i < parts->now.rows; i++) {
		struct parts_row *row = &parts->now.row[i];
		char name[SLICES_NAME];

		slices_device_name(row->id, name);
		if (strcmp(name, device) != 0)
			continue;
		row->busy = true;
		row->given_ns = 0; /* from now on the claim counts */
	}
}

/* On a node of claims there may be no record: nobody was given anything by slots. */
static bool find_given(struct parts *parts)
{
	const struct plugin *p = parts->plugin;
	int r = allocated_known(p, on_given, parts);

	parts->claimed(p, on_claimed, parts);
	if (!p->config->has_mete)
		return r == 0;
	/* A claim is prepared again when the kubelet asks for it. */
	parts->job.wants = 0;
	return r == 0 || r == -ENOENT;
}

static void find_busy(struct parts *parts)
{
	const struct plugin *p = parts->plugin;
	uint64_t now = loop_now_ns();
	bool known;

	for (uint32_t i = 0; i < parts->now.rows; i++)
		parts->now.row[i].busy = false;
	parts->job.wants = 0;
	parts->restores = false;
	known = find_given(parts);
	for (uint32_t i = 0; i < parts->now.rows; i++) {
		struct parts_row *row = &parts->now.row[i];

		row->busy |=
			!known || (row->given_ns && now - row->given_ns < GIVEN_S * 1000000000ull);
	}
	/* Before the API server has said who is there, all of them may be of pods that ended. */
	if (p->api && (!p->pods || !pods_known(p->pods)))
		parts->job.wants = 0;
	else
		parts->restores = known;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void run(struct loop_work *work)
{
	parts_work(&container_of(work, struct parts, work)->job);
}

static void on_finished(struct loop_work *work);

/* The thread gets rows of its own; GPUs it reads anew. */
static void prepare(struct parts *parts)
{
	struct parts_job *job = &parts->job;

	job->state = parts->now;
	job->state.gpu = NULL;
	job->state.gpus = 0;
	job->read = job->changed = false;
	job->stuck = 0;
	job->why.text[0] = '\0';
}

static void adopt(struct parts *parts)
{
	struct parts_job *job = &parts->job;

	if (!job->read)
		return;
	free(parts->now.gpu);
	parts->now = job->state;
	job->state.gpu = NULL;
}

static bool start(struct parts *parts)
{
	prepare(parts);
	return loop_work(parts->plugin->host->loop, &parts->work, run, on_finished) == 0;
}

/* ---- what is wanted -------------------------------------------------------------------------- */

void parts_forget(struct parts_ask *ask)
{
	if (ask->parts->making == ask)
		ask->parts->making = NULL;
	list_remove(&ask->link);
	ask->parts = NULL;
}

static void refuse(struct parts_ask *ask, const char *problem)
{
	parts_forget(ask);
	ask->done(ask, problem);
}

/* The kubelet writes down what a container has after its last Allocate: until then nothing that it
 * was given before counts as idle. */
static void renew(struct parts *parts)
{
	for (uint32_t i = 0; i < parts->now.rows; i++)
		if (parts->now.row[i].given_ns)
			parts->now.row[i].given_ns = loop_now_ns();
}

static void mark_given(struct parts_ask *ask)
{
	for (uint32_t i = 0; ask->written_later && i < ask->count; i++) {
		struct parts_row *row = parts_row(&ask->parts->now, ask->id[i]);

		if (row)
			row->given_ns = loop_now_ns();
	}
}

static void answer(struct parts_ask *ask)
{
	mark_given(ask);
	renew(ask->parts);
	parts_forget(ask);
	ask->done(ask, NULL);
}

/* Are all of them devices of meted by now? */
static bool are_known(const struct parts_ask *ask)
{
	for (uint32_t i = 0; i < ask->count; i++)
		if (mig_place_is_name(ask->id[i]) && parts_device(ask->parts, ask->id[i]) < 0)
			return false;
	return true;
}

static void try_answer(struct parts_ask *ask)
{
	struct plugin *p = ask->parts->plugin;

	if (are_known(ask))
		answer(ask);
	else if (ask->tries++ < TRIES)
		p->host->look(p->host->daemon);
	else
		refuse(ask, "the part was made, and the driver does not list it");
}

static void start_making(struct parts *parts, struct parts_ask *ask)
{
	struct parts_job *job = &parts->job;

	find_busy(parts);
	job->wants = 0;
	job->sweeps = false;
	for (uint32_t i = 0; i < ask->count; i++)
		if (mig_place_is_name(ask->id[i]))
			memcpy(job->want[job->wants++], ask->id[i], IDS_BYTES);
	parts->making = ask;
	if (!start(parts))
		refuse(ask, "no thread for it");
}

void parts_want(struct parts *parts, struct parts_ask *ask)
{
	ask->parts = parts;
	ask->tries = 0;
	ask->made = false;
	list_append(&parts->asks, &ask->link);
	go_on(parts);
}

void parts_unwant(struct parts_ask *ask)
{
	struct parts *parts = ask->parts;

	if (!parts)
		return;
	parts_forget(ask);
	go_on(parts);
}

/* ---- from one to the next ------------------------------------------------------------------- */

static struct parts_ask *first(struct parts *parts)
{
	return list_empty(&parts->asks) ? NULL
					: list_entry(parts->asks.next, struct parts_ask, link);
}

/* With claims no name depends on what the driver says: it is asked by the first look. */
static bool may_begin(const struct parts *parts)
{
	const struct plugin *p = parts->plugin;

	return p->settled && p->config->has_mete && !p->host->mig_config;
}

static bool has_work(const struct parts *parts)
{
	return parts_is_on(parts) ? parts->begun || may_begin(parts)
				  : (parts->begun || parts->late) && parts->now.rows;
}

static void go_on(struct parts *parts)
{
	struct parts_ask *ask;

	if (parts->rests)
		return;
	while (!parts->work.busy && (ask = first(parts)) && !ask->made) {
		start_making(parts, ask);
		if (parts->work.busy)
			return;
	}
	if (parts->work.busy || first(parts) || !parts->looks || !has_work(parts))
		return;
	parts->looks = false;
	find_busy(parts);
	parts->job.sweeps = true;
	best_effort(start(parts) ? 0 : -ENOMEM);
}

static void say_problem(struct parts *parts)
{
	const char *text = parts->job.r < 0 ? parts->job.why.text : "";

	if (*text && strcmp(text, parts->problem) != 0)
		log_warning("parts.problem", "reason=%s", log_text(text).text);
	snprintf(parts->problem, sizeof(parts->problem), "%s", text);
	if (parts->job.stuck > parts->stuck)
		log_info("parts.used",
			 "parts=%u reason=\"nobody was given them, and processes are there, "
			 "or the driver does not say: they stay\"",
			 parts->job.stuck);
	parts->stuck = parts->job.stuck;
}

/* Another GPU may be in MIG mode now: its profiles have names. */
static void follow_names(struct parts *parts)
{
	struct plugin *p = parts->plugin;
	struct fault why = {.text = ""};

	if (!p->settled || !parts_is_on(parts))
		return;
	if (kinds_differ(p) && active_config_divided(p, p->host->devices, &why) < 0 &&
	    strcmp(why.text, parts->unnamed) != 0)
		log_error("parts.unnamed", "reason=%s", log_text(why.text).text);
	snprintf(parts->unnamed, sizeof(parts->unnamed), "%s", why.text);
}

static void finish_ask(struct parts *parts)
{
	struct parts_ask *ask = take(parts->making);

	/* It was a look, or its caller has left. */
	if (!ask)
		return;
	if (parts->job.r < 0) {
		refuse(ask, parts->job.why.text);
		return;
	}
	ask->made = true;
	mark_given(ask);
	try_answer(ask);
}

static void release(struct parts *parts)
{
	free(parts->job.state.gpu);
	free(parts->now.gpu);
	free(parts);
}

static void on_finished(struct loop_work *work)
{
	struct parts *parts = container_of(work, struct parts, work);
	struct plugin *p = parts->plugin;

	if (parts->left) {
		release(parts);
		return;
	}
	adopt(parts);
	if (parts->job.sweeps) {
		parts->begun |= parts->job.read;
		parts->restored |= parts->restores && parts->job.read;
		say_problem(parts);
	}
	if (parts->job.changed) {
		log_info("parts.changed", "parts=%u", parts->now.rows);
		p->host->look(p->host->daemon);
	}
	finish_ask(parts);
	follow_names(parts);
	offered_find(p);
	if (p->settled)
		serve_changed(p);
	go_on(parts);
}

void parts_look(struct parts *parts)
{
	if (!parts)
		return;
	parts->looks = true;
	go_on(parts);
}

void parts_divided(struct parts *parts)
{
	struct parts_ask *ask;

	if (!parts)
		return;
	ask = first(parts);
	if (ask && ask->made)
		try_answer(ask);
	go_on(parts);
}

/* ---- opening and closing -------------------------------------------------------------------- */

/* The node's label divides the GPUs from now on: none of the parts is ours to remove. */
static void leave_all(struct parts *parts)
{
	parts->now.rows = 0;
	if (unlink(parts->job.record) == 0)
		log_info("parts.left", "reason=\"--mig-config divides the GPUs\"");
}

int parts_begin(struct parts *parts, struct fault *why)
{
	bool on = parts_is_on(parts);

	if (!parts || parts->begun)
		return 0;
	if (parts->plugin->host->mig_config) {
		leave_all(parts);
		return 0;
	}
	if (!on && (parts->late || !parts->now.rows))
		return 0;
	if (parts->work.busy) /* since it was switched on again */
		return fault_set(why, -EAGAIN, "migStrategy: dynamic: the driver does not answer");
	prepare(parts);
	parts->job.wants = 0;
	parts->job.sweeps = false;
	parts_work(&parts->job);
	adopt(parts);
	if (parts->job.r < 0 && on)
		return fault_set(why, parts->job.r, "migStrategy: dynamic: %s",
				 parts->job.why.text);
	/* Parts that are left over from before keep nothing else from beginning. */
	parts->begun = parts->job.r == 0;
	parts->late = !parts->begun;
	parts->looks = true;
	return 0;
}

int parts_open(struct plugin *p, parts_each_claimed *claimed, struct parts **ret_parts,
	       struct fault *why)
{
	struct parts *parts = calloc(1, sizeof(*parts));

	if (!parts)
		return fault_set(why, -ENOMEM, "out of memory");
	parts->plugin = p;
	parts->claimed = claimed;
	parts->job.driver_folder = p->host->driver_folder;
	list_init(&parts->asks);
	snprintf(parts->job.record, PARTS_PATH, "%s/parts", p->host->place);
	parts_recall(parts->job.record, &parts->now);
	*ret_parts = parts;
	return 0;
}

void parts_rest(struct parts *parts)
{
	if (parts)
		parts->rests = true;
}

void parts_close(struct parts *parts)
{
	if (!parts)
		return;
	parts_rest(parts);
	parts_abandon(parts, NULL);
	while (first(parts))
		refuse(first(parts), "meted is stopping");
	/* A driver that hangs must not keep a meted that ends. */
	if (parts->work.busy)
		parts->left = true;
	else
		release(parts);
}
