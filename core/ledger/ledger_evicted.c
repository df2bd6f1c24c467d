/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that left the device and still belongs to its holder. */
#include "core/ledger/ledger_book.h"

int ledger_evict(struct ledger *l, struct ledger_holder *holder, uint64_t bytes)
{
	struct amounts now = holder->has;

	l->event++;
	if (bytes > now.allocated - now.evicted)
		return LEDGER_HELD;
	now.evicted += bytes;
	set_amounts(holder, &now);
	return 0;
}

int ledger_restore(struct ledger *l, struct ledger_holder *holder, uint64_t bytes)
{
	const struct ledger_device *d = holder->account->device;
	struct amounts now = holder->has;

	l->event++;
	if (bytes > now.evicted)
		return LEDGER_HELD;
	if (bytes > left_of(device_room(d), unsaid(d, NULL)))
		return LEDGER_FULL;
	now.evicted -= bytes;
	set_amounts(holder, &now);
	return 0;
}

int ledger_free_evicted(struct ledger *l, struct ledger_holder *holder, uint64_t bytes)
{
	struct amounts now = holder->has;

	l->event++;
	if (bytes > now.evicted)
		return LEDGER_HELD;
	now.evicted -= bytes;
	now.allocated -= bytes;
	now.granted -= bytes;
	set_amounts(holder, &now);
	return 0;
}
