/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/time/marks.h"

#include "guest/clock.h"
#include "guest/driver/real.h"

enum { SUMS = 8 }; /* after so many times between marks the sums are halved */

static const struct mark *mark_at(const struct marks *m, uint64_t n)
{
	return &m->mark[n % MARKS];
}

bool marks_make(struct marks *m, CUcontext context)
{
	CUcontext popped;
	int made = 0;

	*m = (struct marks){.context = NULL};
	if (real(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return false;
	while (made < MARKS &&
	       real(cuEventCreate)(&m->mark[made].event, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
		made++;
	if (made == MARKS)
		m->context = context;
	while (made < MARKS && made > 0)
		best_effort(real(cuEventDestroy_v2)(m->mark[--made].event));
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	return m->context != NULL;
}

bool marks_reached(struct marks *m, uint64_t n)
{
	struct mark *mark = &m->mark[(m->count - n) % MARKS];

	if (m->count < n || mark->reached)
		return true;
	mark->reached = real(cuEventQuery)(mark->event) != CUDA_ERROR_NOT_READY;
	return mark->reached;
}

CUstream marks_stream(const struct marks *m, uint64_t n)
{
	return mark_at(m, m->count - n)->stream;
}

uint64_t marks_left_ns(const struct marks *m)
{
	return m->count ? mark_at(m, m->count - 1)->left_ns : 0;
}

void marks_leave(struct marks *m, CUstream stream, uint32_t calls, bool waited, uint64_t waits)
{
	struct mark *mark = &m->mark[m->count % MARKS];

	mark->dry = waits != m->waits || (!waited && marks_reached(m, 1));
	mark->calls = calls ? calls : 1;
	if (real(cuEventRecord)(mark->event, stream) != CUDA_SUCCESS)
		return;
	mark->stream = stream;
	mark->reached = false;
	mark->timed = false;
	mark->left_ns = now_ns();
	m->count++;
	m->waits = waits;
}

bool marks_apart(struct marks *m, uint64_t n, uint64_t *ret_ns)
{
	struct mark *mark = &m->mark[n % MARKS];
	float apart_ms = 0;

	if (!mark->timed && real(cuEventElapsedTime)(&apart_ms, mark_at(m, n - 1)->event,
						     mark->event) == CUDA_SUCCESS) {
		mark->apart_ns = apart_ms > 0 ? (uint64_t)(apart_ms * 1e6f) : 0;
		mark->timed = true;
	}
	*ret_ns = mark->apart_ns;
	return mark->timed;
}

void marks_add_time(struct marks *m, uint64_t apart_ns, uint64_t calls)
{
	m->apart_ns = apart_ns;
	m->sum_apart_ns += apart_ns;
	m->sum_calls += calls;
	if (++m->sums >= SUMS) {
		m->sums /= 2;
		m->sum_apart_ns /= 2;
		m->sum_calls /= 2;
	}
}

/* The n-th mark is reached, and the one before it is still there. */
static void judge(struct marks *m, uint64_t n, uint64_t passed_ns)
{
	uint64_t apart;

	if (n == 0 || !marks_apart(m, n, &apart) ||
	    !lasts_ended(&m->lasts, mark_at(m, n - 1)->left_ns, apart, passed_ns))
		return;
	/* Also where its thread waited at a gate meanwhile. */
	marks_add_time(m, apart, mark_at(m, n)->calls);
	/* Not by a proof that does not suffice: of work of which some waits for its thread, each
	 * proof would make more waits in vain possible. */
	if (lasts_by_itself(&m->lasts))
		m->vain = (struct presence_vain){.count = 0};
}

void marks_judge(struct marks *m, uint64_t passed_ns)
{
	if (m->judged + MARKS <= m->count)
		m->judged = m->count - MARKS + 1;
	for (; m->judged < m->count && marks_reached(m, m->count - m->judged); m->judged++)
		judge(m, m->judged, passed_ns);
}
