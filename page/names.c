/* SPDX-License-Identifier: Apache-2.0 */
#include "page/names.h"

#include "base/text.h"

enum { NAMES_LOOKS = 8 };

static const uint64_t kept_ns = 60 * 1000000000ull;

struct ps_text names_user(void *owner, uint32_t uid)
{
	struct names *names = owner;
	size_t at = uid % NAMES;
	uint64_t now = loop_now_ns();
	struct ps_text said;

	/* The user's place, or else the oldest of a few. */
	for (size_t i = 0, from = at; i < NAMES_LOOKS; i++) {
		size_t other = (from + i) % NAMES;

		if (names->kept[other].known && names->kept[other].uid == uid) {
			at = other;
			break;
		}
		if (names->kept[other].since_ns < names->kept[at].since_ns)
			at = other;
	}
	if (!names->kept[at].known || names->kept[at].uid != uid ||
	    now - names->kept[at].since_ns >= kept_ns) {
		names->kept[at].known = true;
		names->kept[at].uid = uid;
		names->kept[at].since_ns = now;
		names->host->user(uid, names->kept[at].name);
		text_make_plain(names->kept[at].name);
	}
	snprintf(said.text, sizeof(said.text), "%s", names->kept[at].name);
	return said;
}
