/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of rights.h share: the word of the API server on one token, and on one thing. */
#pragma once

#include "page/rights.h"

enum rights_word { RIGHTS_UNSAID, RIGHTS_YES, RIGHTS_NO };

enum rights_kind { RIGHTS_NODE, RIGHTS_POD, RIGHTS_CLAIM };

/* A question, and what was said. */
struct rights_thing {
	struct rights *of;
	enum rights_kind kind;
	char *name; /* NAMESPACE, or NAMESPACE/NAME; NULL: of the node, or of the token */
	enum rights_word said;
	uint64_t said_ns, failed_ns; /* 0: never */
	struct right_asked *asked;   /* it is under way */
	bool wanted;
};

struct rights {
	struct rights_table *table;
	struct http_asker asker; /* who said it first */
	uint64_t id, edition;
	char *token;
	char *user, *name; /* NULL: it was never known */
	struct rights_thing who, node;
	struct rights_thing *thing[RIGHTS_THINGS];
	uint32_t things, streams;
	uint64_t used_ns;
	uint64_t later_ns; /* since when an answer has been lacking; 0: none is */
};

/* Need not be asked again. */
bool rights_fresh(const struct rights_thing *thing, uint64_t now_ns);
/* Yes, and not too long ago even for what is being shown. */
bool rights_hold_good(const struct rights_thing *thing, uint64_t now_ns);
bool rights_failed(const struct rights_thing *thing, uint64_t now_ns);
/* It is said now; a right that is gone makes a new edition. */
void rights_say(struct rights_thing *thing, enum rights_word word);
/* What was said too long ago is said no more. */
void rights_expire(struct rights *rights, uint64_t now_ns);

/* Asks what is due of the pods and claims that there are. RIGHTS_LATER, 0, -EIO, -ENOMEM. */
must_check int rights_step_things(struct rights *rights, uint64_t now_ns);
void rights_drop_things(struct rights *rights);
/* A question about what he may get is under way. */
bool rights_asks(const struct rights *rights);
bool rights_any(const struct rights *rights, uint64_t now_ns);
/* One answer has come. */
void rights_go_on(struct rights *rights);
