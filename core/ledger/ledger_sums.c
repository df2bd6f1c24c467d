/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of devices, accounts and holders: what is held, and what is left. */
#include "core/ledger/ledger_book.h"

int ledger_fits(const struct ledger *l, const struct ledger_holder *holder, uint64_t bytes)
{
	const struct ledger_account *a = holder->account;

	(void)l;
	return !a->expected && bytes <= account_room(a) && !full_above(a, bytes) &&
	       !may_be_held(a, bytes) &&
	       bytes <= left_of(device_room(a->device), unsaid(a->device, NULL));
}

int ledger_within(const struct ledger *l, const struct ledger_holder *holder)
{
	const struct ledger_account *a = holder->account;
	const struct ledger_device *d = a->device;

	(void)l;
	if (d->booked > d->room_for_all)
		return 0;
	while (a && charged_all(a) <= a->limit)
		a = a->above;
	return a == NULL;
}

static struct ledger_sums sums_of(const struct amounts *a)
{
	return (struct ledger_sums){.granted = a->granted,
				    .allocated = a->allocated,
				    .evicted = a->evicted,
				    .residual = a->residual};
}

uint64_t ledger_room_on(const struct ledger *l, uint32_t index)
{
	return device_room(&l->devices[index]);
}

uint64_t ledger_room_for(const struct ledger_account *account)
{
	uint64_t room = least(device_room(account->device), room_above(account));

	return account->below ? least(room, account_room(account)) : room;
}

uint64_t ledger_credit_on(const struct ledger *l, uint32_t index)
{
	return credit(&l->devices[index].sum);
}

uint64_t ledger_credit_of(const struct ledger_account *account)
{
	return credit(&account->sum);
}

void ledger_device_sums(const struct ledger *l, uint32_t index, struct ledger_sums *ret_sums)
{
	const struct ledger_device *d = &l->devices[index];

	*ret_sums = sums_of(&d->sum);
	ret_sums->limit = d->room_for_all;
	ret_sums->booked = d->booked;
	ret_sums->outside = d->outside;
	ret_sums->room = device_room(d);
	ret_sums->waiting = d->waiting;
	ret_sums->holders = d->holders;
}

void ledger_account_sums(const struct ledger_account *account, struct ledger_sums *ret_sums)
{
	*ret_sums = sums_of(&account->sum);
	ret_sums->limit = account->limit;
	ret_sums->room = ledger_room_for(account);
	ret_sums->highest_limit = account->highest_limit;
	ret_sums->booked = account->booked;
	ret_sums->peak = account->peak;
	ret_sums->refused = account->refused;
	ret_sums->waiting = account->waiting;
	ret_sums->holders = account->holder_count;
}

void ledger_holder_sums(const struct ledger_holder *holder, struct ledger_sums *ret_sums)
{
	*ret_sums = sums_of(&holder->has);
}

int ledger_first_ask(const struct ledger_account *account, uint64_t *ret_bytes,
		     uint64_t *ret_since_ns)
{
	if (!account->waiting)
		return 0;
	list_for_each(link, &account->device->asks)
	{
		const struct ask *ask = list_entry(link, struct ask, link);

		if (ask->holder->account != account)
			continue;
		*ret_bytes = ask->request.bytes;
		*ret_since_ns = ask->since_ns;
		return 1;
	}
	return 0;
}
