/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit/settle.h"

#include "guest/link/link.h"
#include "guest/process/state.h"

struct settle_word {
	struct link_word word;
	int device;
	uint64_t bytes;
};

static int write_settle(struct link_word *word, struct wire_message *message)
{
	const struct settle_word *about = container_of(word, struct settle_word, word);
	struct state_device *d = &state.device[about->device];

	message->code = WIRE_residual_settle;
	message->residual_settle.bytes = about->bytes;
	message->residual_settle.keep = about->bytes == 0;
	message->residual_settle.device = atomic_load(&d->wire_index);
	message->residual_settle.contexts = (uint32_t)atomic_load(&d->contexts);
	return 0;
}

/* `bytes`: what RESIDUAL_ASK had reserved for the object that exists now; 0: nothing. Other threads
 * may have reservations for contexts that they are about to make. While the daemon is away nothing
 * is sent: the inventory states everything when it is back. */
void settle_made(int device, uint64_t bytes)
{
	struct settle_word about = {{write_settle, NULL}, device, bytes};

	if (device >= 0 && state_joined())
		best_effort(link_tell(&about.word));
}

void settle_device(int device)
{
	settle_made(device, 0);
}

void settle_all(void)
{
	uint32_t devices = state_joined() ? atomic_load(&state.devices) : 0;

	for (uint32_t i = 0; i < devices; i++)
		settle_made((int)i, 0);
}
