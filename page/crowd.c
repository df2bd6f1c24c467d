/* SPDX-License-Identifier: Apache-2.0 */
#include "page/crowd.h"

#include <string.h>

#include "page/crowd_look.h"
#include "page/lines.h"

/* A text that several viewers read. */
struct chunk {
	uint32_t users;
	size_t size;
	char *text;
};

struct viewer {
	struct http_stream stream;
	struct crowd *crowd;
	struct viewer *next;
	struct chunk *reads; /* NULL: nothing */
	bool behind;	     /* it has missed a change */
};

struct crowd {
	struct crowds *all;
	struct crowd *next;
	struct sight sight;
	struct crowd_look look;
	uint64_t seen_ns;   /* looks.since_ns of it */
	struct chunk *full; /* of `look`, once somebody has wanted it; NULL: nobody has */
	struct viewer *viewers;
	uint32_t quiet; /* ticks without a change */
};

static void leave(struct chunk *chunk)
{
	if (!chunk || --chunk->users)
		return;
	free(chunk->text);
	free(chunk);
}

/* Of a stream that was opened with open_memstream(); NULL without memory. */
static struct chunk *chunk_of(FILE *out, char **text, size_t *size)
{
	struct chunk *chunk = calloc(1, sizeof(*chunk));

	if (fclose(out) != 0 || !chunk) {
		free(*text);
		free(chunk);
		return NULL;
	}
	*chunk = (struct chunk){.users = 1, .size = *size, .text = *text};
	return chunk;
}

static void give(struct viewer *viewer, struct chunk *chunk)
{
	chunk->users++;
	leave(viewer->reads); /* which has been taken */
	viewer->reads = chunk;
	http_stream_give(&viewer->stream, chunk->text, chunk->size);
}

/* What the crowd sees, whole; NULL without memory. */
static struct chunk *write_full(struct crowd *crowd)
{
	char *lines = NULL, *text = NULL;
	size_t lines_size, size;
	FILE *out = open_memstream(&lines, &lines_size);
	struct chunk *chunk = NULL;
	int r;

	if (!out)
		return NULL;
	r = looks_write(out, crowd->all->looks, &crowd->sight);
	if (fclose(out) == 0 && r == 0 && (out = open_memstream(&text, &size)) != NULL) {
		fputs("event: state\ndata: {", out);
		lines_join(out, lines);
		fputs("}\n\n", out);
		chunk = chunk_of(out, &text, &size);
	}
	free(lines);
	return chunk;
}

/* Once for all who want it. */
static struct chunk *full(struct crowd *crowd)
{
	if (!crowd->full)
		crowd->full = write_full(crowd);
	return crowd->full;
}

static void catch_up(struct viewer *viewer)
{
	struct chunk *chunk = full(viewer->crowd);

	viewer->behind = !chunk;
	if (chunk)
		give(viewer, chunk);
}

/* Looks again. NULL: nothing has changed, or there is no memory for it. */
static struct chunk *look_again(struct crowd *crowd)
{
	struct crowd_look look;
	struct chunk *chunk;
	char *text = NULL;
	size_t size;
	bool any = false;
	FILE *out = open_memstream(&text, &size);
	int r;

	if (!out)
		return NULL;
	fputs("event: change\ndata: ", out);
	r = crowd_look_at(&look, &crowd->look, &crowd->sight, crowd->all->looks, out, &any);
	fputs("\n\n", out);
	chunk = chunk_of(out, &text, &size);
	leave(take(crowd->full));
	crowd_look_free(&crowd->look);
	if (r == 0)
		crowd->look = look;
	crowd->seen_ns = crowd->all->looks->since_ns;
	/* What could not be told is told whole. */
	if (r < 0 || !chunk)
		for (struct viewer *v = crowd->viewers; v; v = v->next)
			v->behind = true;
	if (chunk && (r < 0 || !any))
		leave(take(chunk));
	return chunk;
}

static struct chunk *comment(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fputs(":\n\n", out);
	return chunk_of(out, &text, &size);
}

static void tell(struct viewer *viewer, struct chunk *change)
{
	if (!http_stream_is_free(&viewer->stream))
		viewer->behind |= change != NULL;
	else if (http_stream_is_alone(&viewer->stream))
		http_stream_end(&viewer->stream);
	else if (viewer->behind)
		catch_up(viewer);
	else if (change)
		give(viewer, change);
}

static void go_on(struct crowd *crowd)
{
	struct chunk *change = look_again(crowd);

	crowd->quiet = change ? 0 : crowd->quiet + 1;
	if (crowd->quiet == CROWD_QUIET_TICKS) {
		crowd->quiet = 0;
		change = comment();
	}
	for (struct viewer *v = crowd->viewers; v; v = v->next)
		tell(v, change);
	leave(change);
}

/* They may come again, and are asked again who they are. */
static void dismiss(struct crowd *crowd)
{
	for (struct viewer *v = crowd->viewers; v; v = v->next)
		http_stream_end(&v->stream);
}

static void on_tick(struct loop_timer *timer)
{
	struct crowds *crowds = container_of(timer, struct crowds, tick);

	if (!crowds->first)
		return;
	loop_arm(&crowds->tick, CROWD_TICK_MS * 1000000ull);
	if (looks_gather(crowds->looks, true) < 0)
		return;
	/* What boards say now is in the next change. */
	crowds->looks->host->want_boards(crowds->looks->host->daemon, NULL, NULL);
	for (struct crowd *crowd = crowds->first; crowd; crowd = crowd->next)
		if (rights_last(crowds->rights, &crowd->sight))
			go_on(crowd);
		else
			dismiss(crowd);
}

static void disband(struct crowd *crowd)
{
	struct crowds *crowds = crowd->all;
	struct crowd **at = &crowds->first;

	while (*at != crowd)
		at = &(*at)->next;
	*at = crowd->next;
	leave(crowd->full);
	crowd_look_free(&crowd->look);
	rights_leave(crowds->rights, &crowd->sight);
	free(crowd);
}

static void on_taken(struct http_stream *stream)
{
	leave(take(container_of(stream, struct viewer, stream)->reads));
}

static void on_ended(struct http_stream *stream)
{
	struct viewer *viewer = container_of(stream, struct viewer, stream), **at;

	for (at = &viewer->crowd->viewers; *at != viewer;)
		at = &(*at)->next;
	*at = viewer->next;
	if (!viewer->crowd->viewers)
		disband(viewer->crowd);
	leave(viewer->reads);
	free(viewer);
}

static struct crowd *find(struct crowds *crowds, const struct sight *sight)
{
	for (struct crowd *crowd = crowds->first; crowd; crowd = crowd->next)
		if (sight_same(&crowd->sight, sight))
			return crowd;
	return NULL;
}

/* NULL without memory. */
static struct crowd *gather(struct crowds *crowds, const struct sight *sight)
{
	struct crowd *crowd = calloc(1, sizeof(*crowd));

	if (!crowd)
		return NULL;
	crowd->all = crowds;
	crowd->sight = *sight;
	rights_hold(crowds->rights, sight);
	leave(look_again(crowd));
	if (!crowds->first)
		loop_arm(&crowds->tick, CROWD_TICK_MS * 1000000ull);
	crowd->next = crowds->first;
	crowds->first = crowd;
	return crowd;
}

/* How many viewers does that user of the cluster have, with whatever tokens? Not those who have
 * left, which is noticed at the next tick. */
static uint32_t count_viewers(const struct crowds *crowds, const struct rights *rights)
{
	uint32_t n = 0;

	for (const struct crowd *crowd = crowds->first; crowd; crowd = crowd->next) {
		if (!crowd->sight.rights ||
		    strcmp(rights_name(crowd->sight.rights), rights_name(rights)) != 0)
			continue;
		for (const struct viewer *v = crowd->viewers; v; v = v->next)
			n += !http_stream_is_alone(&v->stream);
	}
	return n;
}

int crowds_open(struct crowds *crowds, struct looks *looks, struct rights_table *rights)
{
	crowds->looks = looks;
	crowds->rights = rights;
	return loop_timer_init(looks->host->loop, &crowds->tick, on_tick);
}

void crowds_close(struct crowds *crowds, void (*closed)(struct loop_timer *timer))
{
	loop_timer_close(&crowds->tick, closed);
}

int crowds_join(struct crowds *crowds, const struct sight *sight, struct http_stream **ret_stream)
{
	struct viewer *viewer;
	struct crowd *crowd;

	if (sight->rights && count_viewers(crowds, sight->rights) >= CROWD_VIEWERS_EACH)
		return -EBUSY;
	viewer = calloc(1, sizeof(*viewer));
	crowd = viewer ? find(crowds, sight) : NULL;
	if (viewer && looks_gather(crowds->looks, false) == 0) {
		if (!crowd && looks_may_begin(crowds->looks, sight) == 0)
			crowd = gather(crowds, sight);
		else if (crowd && crowd->seen_ns != crowds->looks->since_ns)
			go_on(crowd); /* what all of it is told, and what has changed since, fit
					 together */
	} else {
		crowd = NULL;
	}
	if (!crowd) {
		free(viewer);
		return -ENOMEM;
	}
	viewer->stream.taken = on_taken;
	viewer->stream.ended = on_ended;
	viewer->crowd = crowd;
	viewer->next = crowd->viewers;
	crowd->viewers = viewer;
	catch_up(viewer);
	*ret_stream = &viewer->stream;
	return 0;
}
