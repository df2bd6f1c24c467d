/* SPDX-License-Identifier: Apache-2.0 */
#include "core/mps.h"

/* A daemon goes to the background before it listens. */
enum { WAITS_MOST = 20, DOUBLINGS = 10 };

void mps_init(struct mps *m, bool marked, uint64_t now_ns)
{
	*m = (struct mps){.marked = marked,
			  .doubts = marked ? WAITS_MOST : 0,
			  .due_ns = now_ns,
			  .ask_ns = MPS_ASK_NS};
}

static void forget(struct mps *m)
{
	m->ready = m->answers = m->asked = m->limited = false;
}

void mps_want(struct mps *m, bool wanted, uint64_t now_ns)
{
	if (m->wanted == wanted)
		return;
	m->wanted = wanted;
	m->moded = m->ready = false;
	m->asked = m->answers = m->limited = false;
	m->stale = m->runs != MPS_NOTHING;
	m->failures = 0;
	m->due_ns = now_ns;
}

void mps_limits(struct mps *m, uint64_t now_ns)
{
	m->limited = m->ready = false;
	m->stale |= m->runs == MPS_LIMIT;
	if (m->wanted && !m->failures)
		m->due_ns = now_ns;
}

/* After a failure that `before` others preceded. */
static uint64_t pause_ns(uint32_t before)
{
	uint64_t ns = MPS_PAUSE_NS << (before < DOUBLINGS ? before : DOUBLINGS - 1);

	return ns < MPS_PAUSE_MOST_NS ? ns : MPS_PAUSE_MOST_NS;
}

static void fail(struct mps *m, uint64_t now_ns)
{
	m->due_ns = now_ns + pause_ns(m->failures++);
}

/* The first one after a long time is replaced at once. */
static void end(struct mps *m, uint64_t now_ns)
{
	bool steady = m->ready && now_ns - m->ready_ns >= MPS_STEADY_NS;

	forget(m);
	if (steady) {
		m->failures = 0;
		m->due_ns = now_ns;
	} else {
		fail(m, now_ns);
	}
}

void mps_gone(struct mps *m, uint64_t now_ns)
{
	if (m->runs != MPS_NOTHING) {
		m->lost = true;
		m->ready = false;
	} else {
		end(m, now_ns);
	}
}

static enum mps_command choose(const struct mps *m)
{
	if (!m->wanted && !m->marked)
		return MPS_NOTHING;
	if (m->wanted && !m->moded)
		return MPS_MODE;
	if (!m->asked)
		return MPS_ASK;
	if (!m->wanted)
		return m->answers ? MPS_QUIT : MPS_UNMODE;
	if (!m->answers)
		return MPS_START;
	return m->limited ? MPS_ASK : MPS_LIMIT;
}

enum mps_command mps_next(struct mps *m, uint64_t now_ns)
{
	if (m->runs != MPS_NOTHING || now_ns < m->due_ns)
		return MPS_NOTHING;
	m->runs = choose(m);
	m->marked |= m->runs == MPS_MODE;
	return m->runs;
}

uint64_t mps_deadline(const struct mps *m)
{
	return m->runs != MPS_NOTHING || choose(m) == MPS_NOTHING ? UINT64_MAX : m->due_ns;
}

/* A daemon that was just started gets some time: the question is repeated, and it is not started
 * again. */
static void did_ask(struct mps *m, bool answered, uint64_t now_ns)
{
	bool was_ready = m->ready;

	if (m->stale) {
		m->due_ns = now_ns;
		return;
	}
	if (!answered && !m->wanted && m->doubts) {
		m->doubts--;
		m->asked = false;
		m->due_ns = now_ns + MPS_PAUSE_NS;
		return;
	}
	m->doubts = 0;
	if (!answered && m->waits) {
		m->waits--;
		m->asked = false;
		m->due_ns = now_ns + MPS_PAUSE_NS;
		return;
	}
	if (!answered && was_ready) {
		end(m, now_ns);
		return;
	}
	m->waits = 0;
	m->asked = true;
	m->answers = answered;
	if (!answered)
		m->limited = m->ready = false;
	if (was_ready && now_ns - m->ready_ns >= MPS_STEADY_NS)
		m->failures = 0;
	m->due_ns = m->ready ? now_ns + m->ask_ns : now_ns;
}

static void did_start(struct mps *m, bool well, uint64_t now_ns)
{
	m->asked = false;
	m->waits = well ? WAITS_MOST : 0;
	if (!well)
		fail(m, now_ns);
	else
		m->due_ns = now_ns;
}

static void did_limit(struct mps *m, bool well, uint64_t now_ns)
{
	if (!well) {
		m->asked = m->answers = false;
		fail(m, now_ns);
		return;
	}
	m->limited = !m->stale;
	m->due_ns = now_ns;
	if (!m->limited || !m->wanted)
		return;
	m->ready = true;
	m->ready_ns = now_ns;
	m->due_ns = now_ns + m->ask_ns;
}

/* The wish may have changed while the command ran: then everything is asked anew. */
void mps_did(struct mps *m, bool well, uint64_t now_ns)
{
	enum mps_command did = m->runs;

	m->runs = MPS_NOTHING;
	switch (did) {
	case MPS_MODE:
		m->moded = well && m->wanted;
		break;
	case MPS_ASK:
		did_ask(m, well, now_ns);
		break;
	case MPS_START:
		did_start(m, well, now_ns);
		break;
	case MPS_LIMIT:
		did_limit(m, well, now_ns);
		break;
	case MPS_QUIT:
		forget(m);
		break;
	case MPS_UNMODE:
		m->marked = !well || m->wanted;
		m->moded = false;
		break;
	case MPS_NOTHING:
		return;
	}
	/* A daemon ends when its servers have ended: until then it is asked seldom. */
	if (did == MPS_QUIT || (!well && (did == MPS_MODE || did == MPS_UNMODE)))
		fail(m, now_ns);
	m->stale = false;
	if (m->lost && did != MPS_START)
		end(m, now_ns);
	m->lost = false;
}
