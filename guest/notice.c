/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/notice.h"

#include "guest/clock.h"
#include "guest/say.h"
#include "guest/state.h"

void notice_wait(uint64_t *began_ns, enum notice why)
{
	static struct notice_rate rate;
	static const char *const what[] = {
		[NOTICE_TURN] = "its turn on the GPU",
		[NOTICE_MEMORY] = "its memory, which is off the GPU while others use it",
		[NOTICE_ROOM] = "memory of the GPU",
	};
	uint64_t now = now_ns();

	if (!*began_ns)
		*began_ns = now;
	if (__atomic_load_n(&guest_tenant_page.quiet, __ATOMIC_RELAXED) || atomic_load(&state.lost))
		return;
	if (notice_due(&rate, *began_ns, now))
		say_aside(
			"this program waits for %s; `mete ps` shows who has it (notices=off in its "
			"share silences this)",
			what[why]);
}
