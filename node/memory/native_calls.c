/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that tell the driver its limits. They may take long: a worker makes them. */
#include <string.h>

#include "node/memory/native_inside.h"

static void run(struct loop_work *work)
{
	struct native *n = container_of(work, struct native, work);

	for (uint32_t i = 0; i < n->steps; i++) {
		struct step *step = &n->step[i];
		const struct native_call *call = &step->call;
		const struct nvml *nvml = n->daemon->nvml;
		int r = nvml_limit(nvml, call->device, call->path, call->limits.soft_bytes,
				   call->limits.hard_bytes);

		/* The hard limit matters more. */
		if (r < 0 && r != -ENOENT && call->limits.soft_bytes) {
			step->unguaranteed = r;
			r = nvml_limit(nvml, call->device, call->path, 0, call->limits.hard_bytes);
		}
		step->result = r;
	}
}

static void warn(const struct native *n, const struct native_call *call, int r, const char *what)
{
	log_warning("limits.refused", "uuid=%s group=%s reason=%s: %s",
		    n->daemon->device[call->device].info->uuid_text, log_text(call->path).text,
		    log_text(strerror(-r)).text, what);
}

/* Once for each reason. That a limit cannot be taken back is none: its group, or its device, has
 * gone. */
static void complain(struct native *n, const struct native_call *call, int r)
{
	if (call->limits.hard_bytes == NATIVE_NONE)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(n->warned); i++) {
		if (n->warned[i] == r)
			return;
		if (n->warned[i])
			continue;
		n->warned[i] = r;
		warn(n, call, r, "the driver limits no memory there, and only the guest does");
		return;
	}
}

static void finish(struct native *n, const struct step *step)
{
	const struct native_call *call = &step->call;

	if (step->result < 0)
		complain(n, call, step->result);
	else
		log_debug("limits.set", "uuid=%s group=%s soft_bytes=%llu hard_bytes=%llu",
			  n->daemon->device[call->device].info->uuid_text,
			  log_text(call->path).text,
			  (unsigned long long)(step->unguaranteed ? 0 : call->limits.soft_bytes),
			  (unsigned long long)call->limits.hard_bytes);
	if (step->unguaranteed && step->result == 0 && !n->warned_soft) {
		n->warned_soft = true;
		warn(n, call, step->unguaranteed,
		     "the driver limits memory there, and guarantees none");
	}
	native_book_done(&n->book, call, step->result);
}

static void on_finished(struct loop_work *work)
{
	struct native *n = container_of(work, struct native, work);

	for (uint32_t i = 0; i < n->steps; i++)
		finish(n, &n->step[i]);
	n->steps = 0;
	if (n->stirred)
		native_stir(n);
	n->stirred = false;
}

/* The calls that are to be made; without memory for them they are made later. */
static bool collect(struct native *n)
{
	struct native_call call;

	for (;;) {
		if (n->steps == n->room) {
			uint32_t room = n->room ? 2 * n->room : 16;
			struct step *step = reallocarray(n->step, room, sizeof(*step));

			if (!step)
				return false;
			n->step = step;
			n->room = room;
		}
		if (!native_book_next(&n->book, &call))
			return true;
		n->step[n->steps++] = (struct step){.call = call};
	}
}

bool native_tell(struct native *n)
{
	bool all = collect(n);

	if (!n->steps || loop_work(&n->daemon->loop, &n->work, run, on_finished) == 0)
		return all;
	for (uint32_t i = 0; i < n->steps; i++)
		native_book_undone(&n->book, &n->step[i].call);
	n->steps = 0;
	return false;
}
