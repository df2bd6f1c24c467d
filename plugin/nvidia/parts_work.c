/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/nvidia/parts_work.h"

#include <string.h>

#include "base/file.h"
#include "mig/nvml.h"
#include "mig/place.h"
#include "mig/room.h"

enum { RECORD_MOST = PARTS_ROWS * IDS_BYTES };

/* ---- the record ----------------------------------------------------------------------------- */

struct parts_row *parts_row(struct parts_state *state, const char *id)
{
	for (uint32_t i = 0; i < state->rows; i++)
		if (strcmp(state->row[i].id, id) == 0)
			return &state->row[i];
	return NULL;
}

void parts_recall(const char *path, struct parts_state *state)
{
	owned(free) char *text = NULL;
	char *line, *rest;
	size_t size;

	if (file_slurp(path, RECORD_MOST, &text, &size) < 0)
		return;
	for (line = strtok_r(text, "\n", &rest); line && state->rows < PARTS_ROWS;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (!mig_place_is_name(line) || strlen(line) >= IDS_BYTES || parts_row(state, line))
			continue;
		state->row[state->rows] = (struct parts_row){.busy = true};
		snprintf(state->row[state->rows++].id, IDS_BYTES, "%.63s", line);
	}
}

static int write_down(struct parts_job *job)
{
	char text[RECORD_MOST + 1];
	size_t n = 0;
	int r;

	for (uint32_t i = 0; i < job->state.rows; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", job->state.row[i].id);
	r = file_replace(job->record, text, n, 0600);
	return r < 0 ? fault_set(&job->why, r, "%.200s: %s", job->record, strerror(-r)) : 0;
}

static int note(struct parts_job *job, const char *id)
{
	struct parts_row *row = parts_row(&job->state, id);
	int r;

	if (row)
		return 0;
	if (job->state.rows == PARTS_ROWS)
		return fault_set(&job->why, -ENOSPC, "there are %d parts already", PARTS_ROWS);
	row = &job->state.row[job->state.rows++];
	*row = (struct parts_row){.busy = true};
	memmove(row->id, id, strlen(id) + 1); /* shorter than that: mig_place_find() knows it */
	r = write_down(job);
	if (r < 0)
		job->state.rows--;
	return r;
}

static void strike(struct parts_job *job, struct parts_row *row)
{
	struct parts_state *state = &job->state;

	*row = state->row[--state->rows];
	/* It would only be looked for once more. */
	best_effort(write_down(job));
}

/* ---- what is there -------------------------------------------------------------------------- */

const struct parts_row *parts_row_of(const struct parts_state *state, const struct mig_gpu *gpu,
				     const struct mig_part *part)
{
	char id[IDS_BYTES];

	for (uint32_t k = 0; k < gpu->profile[part->profile].places; k++)
		if (gpu->profile[part->profile].place[k].start == part->place.start &&
		    mig_place_name(gpu, part->profile, k, id, sizeof(id)) == 0)
			return parts_row((struct parts_state *)state, id);
	return NULL;
}

bool parts_goes(const struct parts_state *state, const struct mig_gpu *gpu,
		const struct mig_part *part)
{
	const struct parts_row *row = parts_row_of(state, gpu, part);

	return row && !row->busy && !row->stays;
}

void parts_find_going(const struct parts_state *state, const struct mig_gpu *gpu,
		      bool ret_goes[MIG_PARTS_MAX])
{
	memset(ret_goes, 0, MIG_PARTS_MAX * sizeof(ret_goes[0]));
	for (uint32_t i = 0; i < gpu->parts; i++)
		ret_goes[i] = parts_goes(state, gpu, &gpu->part[i]);
}

/* A GPU that does not answer has no place to offer, and what is written of its parts stays. */
static int read_all(struct parts_job *job, const struct mig_nvml *nvml)
{
	uint32_t count = mig_count(nvml);
	struct mig_gpu *gpus = calloc(count ? count : 1, sizeof(*gpus));
	struct fault why;

	if (!gpus)
		return fault_set(&job->why, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < count; i++)
		if (mig_read(nvml, i, &gpus[i], &why) < 0)
			memset(&gpus[i], 0, sizeof(gpus[i]));
	free(job->state.gpu);
	job->state.gpu = gpus;
	job->state.gpus = count;
	job->read = true;
	return 0;
}

static bool has_answered(const struct parts_state *state, const char *id)
{
	for (uint32_t i = 0; i < state->gpus; i++) {
		size_t n = strlen(state->gpu[i].uuid);

		if (n && strncmp(state->gpu[i].uuid, id, n) == 0 && id[n] == ':')
			return true;
	}
	return false;
}

/* Somebody has destroyed them, has switched the mode off, or they were never made. */
static void forget_missing(struct parts_job *job)
{
	struct parts_state *state = &job->state;

	for (uint32_t i = state->rows; i-- > 0;) {
		struct mig_place_at at;
		bool found = mig_place_find(state->gpu, state->gpus, state->row[i].id, &at) == 0;

		if (found && mig_room_part(&state->gpu[at.gpu], at.profile, at.place) >= 0)
			continue;
		if (found || has_answered(state, state->row[i].id))
			strike(job, &state->row[i]);
	}
}

/* ---- changes -------------------------------------------------------------------------------- */

/* 0: it is gone; MIG_IN_USE. */
static int unmake(struct parts_job *job, const struct mig_nvml *nvml, struct parts_row *row)
{
	struct parts_state *state = &job->state;
	struct mig_place_at at;
	struct mig_gpu *gpu;
	unsigned user;
	int r, part;

	if (mig_place_find(state->gpu, state->gpus, row->id, &at) < 0)
		return 0;
	gpu = &state->gpu[at.gpu];
	part = mig_room_part(gpu, at.profile, at.place);
	if (part < 0)
		return 0;
	/* A process that nobody gave it to may be there as well; and while the driver does not say
	 * who is, one may be. */
	r = mig_user(nvml, gpu, &gpu->part[part], &user) < 0 || user
		    ? MIG_IN_USE
		    : mig_unmake(nvml, gpu, &gpu->part[part], &job->why);
	if (r != 0)
		return r;
	job->changed = true;
	strike(job, row);
	return mig_read(nvml, gpu->index, gpu, &job->why);
}

static int sweep(struct parts_job *job, const struct mig_nvml *nvml)
{
	int r = 0;

	for (uint32_t i = job->state.rows; i-- > 0;) {
		struct parts_row *row = &job->state.row[i];
		int one;

		row->stays = !row->busy; /* unless it is struck out now */
		if (row->busy)
			continue;
		one = unmake(job, nvml, row);
		job->stuck += one == MIG_IN_USE;
		r = one < 0 ? one : r;
	}
	return r;
}

/* What is ours and idle makes room; the first part that does not is named. */
static int make_room(struct parts_job *job, const struct mig_nvml *nvml,
		     const struct mig_place_at *at)
{
	struct mig_gpu *gpu = &job->state.gpu[at->gpu];
	const struct mig_place place = gpu->profile[at->profile].place[at->place];

	for (uint32_t i = gpu->parts; i-- > 0;) {
		const struct mig_part *part = i < gpu->parts ? &gpu->part[i] : NULL;
		char id[IDS_BYTES], name[MIG_NAME_MAX];
		int r = MIG_IN_USE;

		if (!part || !mig_place_overlaps(part->place, place))
			continue;
		snprintf(name, sizeof(name), "%s", gpu->profile[part->profile].name);
		for (uint32_t k = 0; k < gpu->profile[part->profile].places; k++)
			if (gpu->profile[part->profile].place[k].start == part->place.start &&
			    parts_goes(&job->state, gpu, part) &&
			    mig_place_name(gpu, part->profile, k, id, sizeof(id)) == 0) {
				r = unmake(job, nvml, parts_row(&job->state, id));
				break;
			}
		if (r < 0)
			return r;
		if (r == MIG_IN_USE)
			return fault_set(&job->why, -EBUSY,
					 "GPU %u has no room for %s there: its part %s at %u is in "
					 "use, or is somebody else's",
					 gpu->index, gpu->profile[at->profile].name, name,
					 part->place.start);
	}
	return 0;
}

/* One compute instance that is all of it: otherwise somebody was killed while it was made. */
static bool is_there(const struct parts_job *job, const struct mig_place_at *at)
{
	const struct mig_gpu *gpu = &job->state.gpu[at->gpu];
	int part = mig_room_part(gpu, at->profile, at->place);

	return part >= 0 && mig_part_is_whole(gpu, &gpu->part[part]);
}

/* The driver may have made half of it and not have taken that back: it is ours to remove. */
static void clean_up(struct parts_job *job, const struct mig_nvml *nvml, uint32_t gpu,
		     const char *id)
{
	struct parts_row *row;
	struct fault why;

	if (mig_read(nvml, job->state.gpu[gpu].index, &job->state.gpu[gpu], &why) == 0)
		forget_missing(job);
	row = parts_row(&job->state, id);
	if (row)
		row->busy = false;
}

static int make(struct parts_job *job, const struct mig_nvml *nvml, const char *id)
{
	struct parts_row *row = parts_row(&job->state, id);
	struct mig_place_at at;
	struct mig_gpu *gpu;
	int r;

	if (mig_place_find(job->state.gpu, job->state.gpus, id, &at) < 0)
		return fault_set(&job->why, -ENODEV,
				 "no GPU of this node has that place: is it in MIG mode?");
	if (row && is_there(job, &at))
		return 0;
	if (row)
		row->busy = false; /* it is not whole, so nobody can have it */
	r = make_room(job, nvml, &at);
	if (r == 0)
		r = note(job, id);
	if (r < 0)
		return r;
	gpu = &job->state.gpu[at.gpu];
	r = mig_make(nvml, gpu, at.profile, gpu->profile[at.profile].place[at.place].start,
		     &job->why);
	if (r < 0) {
		clean_up(job, nvml, at.gpu, id);
		return r;
	}
	job->changed = true;
	return mig_read(nvml, gpu->index, gpu, &job->why);
}

/* A part of ours that is there and that nobody had is given only if it is empty. */
static int claim(struct parts_job *job, const struct mig_nvml *nvml, const char *id)
{
	struct parts_state *state = &job->state;
	struct parts_row *row = parts_row(state, id);
	struct mig_place_at at;
	unsigned user = 0;
	int part, r = 0;

	if (!row)
		return 0;
	part = mig_place_find(state->gpu, state->gpus, id, &at) < 0
		       ? -1
		       : mig_room_part(&state->gpu[at.gpu], at.profile, at.place);
	if (part >= 0 && !row->busy)
		r = mig_user(nvml, &state->gpu[at.gpu], &state->gpu[at.gpu].part[part], &user);
	row->stays = r < 0 || user;
	row->busy = !row->stays;
	if (r < 0)
		return fault_set(&job->why, -EBUSY,
				 "the driver does not say whether a process is on %s", id);
	if (!user)
		return 0;
	return fault_set(&job->why, -EBUSY, "process %u is on %s though nobody was given it", user,
			 id);
}

/* What is wanted comes first: a place that goes and is wanted stays. */
static int bring_about(struct parts_job *job, const struct mig_nvml *nvml)
{
	int r = 0;

	for (uint32_t i = 0; i < job->wants && (r == 0 || job->sweeps); i++) {
		int one = claim(job, nvml, job->want[i]);

		r = one < 0 ? one : r;
	}
	for (uint32_t i = 0; i < job->wants && (r == 0 || job->sweeps); i++) {
		int one = make(job, nvml, job->want[i]);

		r = one < 0 ? one : r;
	}
	return r;
}

void parts_work(struct parts_job *job)
{
	owned(mig_close) struct mig_nvml *nvml = NULL;
	int r = mig_open(job->driver_folder, &nvml, &job->why);

	if (r == 0)
		r = read_all(job, nvml);
	if (r == 0) {
		forget_missing(job);
		r = bring_about(job, nvml);
	}
	if (job->read && job->sweeps) {
		int swept = sweep(job, nvml);

		r = swept < 0 ? swept : r;
	}
	job->r = r;
}
