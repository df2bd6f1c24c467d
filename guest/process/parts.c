/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/parts.h"

#define CALL(event, part) part##_##event();

void parts_forget(void)
{
	PARTS_forget(CALL);
}

void parts_new_page(void)
{
	PARTS_new_page(CALL);
}

void parts_down(void)
{
	PARTS_down(CALL);
}

void parts_up(void)
{
	PARTS_up(CALL);
}

void parts_connected(void)
{
	PARTS_connected(CALL);
}

void parts_unread(void)
{
	PARTS_unread(CALL);
}
#undef CALL

/* Stops at the first failure. */
#define CALL(event, part)                                                                          \
	if (r == 0)                                                                                \
		r = part##_##event();

int parts_start(void)
{
	int r = 0;

	PARTS_start(CALL);
	return r;
}

int parts_await(void)
{
	int r = 0;

	PARTS_await(CALL);
	return r;
}
#undef CALL

#define CALL(event, part) | part##_##event()
bool parts_is_away(void)
{
	return false PARTS_is_away(CALL);
}
#undef CALL

#define CALL(event, part) part##_##event(device, bytes);
void parts_spare(int device, uint64_t bytes)
{
	PARTS_spare(CALL);
}

void parts_trim(int device, uint64_t bytes)
{
	PARTS_trim(CALL);
}
#undef CALL

#define CALL(event, part) | part##_##event(device)
bool parts_recount(int device)
{
	return false PARTS_recount(CALL);
}
#undef CALL

#define CALL(event, part) part##_##event(device, inventory);
void parts_state(int device, struct wire_inventory *inventory)
{
	PARTS_state(CALL);
}
#undef CALL

#define CALL(event, part) part##_##event(device, granted);
void parts_stated(int device, bool granted)
{
	PARTS_stated(CALL);
}
#undef CALL

#define CALL(event, part)                                                                          \
	if (r == 0)                                                                                \
		r = part##_##event(send);
int parts_tell(parts_send *send)
{
	int r = 0;

	PARTS_tell(CALL) return r;
}
#undef CALL

#define CALL(event, part) part##_##event(message, fd);
void parts_heard(const struct wire_message *message, int *fd){PARTS_heard(CALL)}
#undef CALL

#define CALL(event, part) +part##_##event(grant, asked)
uint64_t parts_granted(const struct wire_credit_grant *grant, uint64_t asked)
{
	return 0 PARTS_granted(CALL);
}
#undef CALL

#define CALL(event, part) part##_##event(grant, kept);
void parts_unclaimed(const struct wire_credit_grant *grant, uint64_t kept)
{
	PARTS_unclaimed(CALL);
}
