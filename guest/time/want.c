/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/time/want.h"

#include "guest/link/link.h"
#include "guest/process/state.h"

enum quiet {
	BUSY = 0,
	ARMING,
	IDLE,
};

_Atomic uint32_t want_quiet;
static _Atomic uint32_t quiet[STATE_DEVICES]; /* enum quiet, by index as in guest/process/state.h */

/* The state changes when the message is written, under the connection's lock, so that the last
 * message that the daemon gets is about the current state. */
struct quiet_word {
	struct link_word word;
	int device;
};

static int write_wants(struct link_word *word, struct wire_message *message)
{
	const struct quiet_word *about = container_of(word, struct quiet_word, word);
	uint32_t was = IDLE;

	if (!atomic_compare_exchange_strong(&quiet[about->device], &was, BUSY))
		return LINK_MOOT;
	message->code = WIRE_wants;
	message->wants.device = atomic_load(&state.device[about->device].wire_index);
	return 0;
}

/* The message was not sent; send it again. */
static void unsent_wants(struct link_word *word, const struct wire_message *message)
{
	const struct quiet_word *about = container_of(word, struct quiet_word, word);

	(void)message;
	atomic_store(&quiet[about->device], IDLE);
}

static int write_idle(struct link_word *word, struct wire_message *message)
{
	const struct quiet_word *about = container_of(word, struct quiet_word, word);
	uint32_t was = ARMING;

	if (!atomic_compare_exchange_strong(&quiet[about->device], &was, IDLE))
		return LINK_MOOT;
	message->code = WIRE_idle;
	message->idle.device = atomic_load(&state.device[about->device].wire_index);
	return 0;
}

static void unsent_idle(struct link_word *word, const struct wire_message *message)
{
	const struct quiet_word *about = container_of(word, struct quiet_word, word);

	(void)message;
	atomic_store(&quiet[about->device], BUSY);
}

static void wake_one(int device)
{
	struct quiet_word about = {{write_wants, unsent_wants}, device};
	uint32_t was = ARMING;

	if (atomic_load(&quiet[device]) == BUSY ||
	    atomic_compare_exchange_strong(&quiet[device], &was, BUSY))
		return;
	/* If the message cannot be sent, the connection is lost; on the next one the device counts
	 * as busy. */
	if (link_tell(&about.word) < 0)
		atomic_store(&quiet[device], BUSY);
}

void want_wake(int device)
{
	for (int i = 0; i < (int)atomic_load(&state.devices); i++)
		if (device < 0 || device == i)
			wake_one(i);
}

/* ---- the agent ------------------------------------------------------------------------------- */

void want_set_busy(int device)
{
	atomic_store(&quiet[device], BUSY);
	atomic_fetch_and(&want_quiet, ~(1u << device));
}

void want_arm(int device)
{
	atomic_fetch_or(&want_quiet, 1u << device);
	atomic_store(&quiet[device], ARMING);
}

int want_send_idle(int device)
{
	struct quiet_word about = {{write_idle, unsent_idle}, device};

	return link_try(&about.word);
}

bool want_is_idle(int device)
{
	return atomic_load(&quiet[device]) == IDLE;
}

void want_down(void)
{
	for (int i = 0; i < STATE_DEVICES; i++)
		atomic_store(&quiet[i], BUSY);
}
