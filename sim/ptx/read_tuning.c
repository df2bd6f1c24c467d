/* SPDX-License-Identifier: Apache-2.0 */
/* Directives of performance: what may stand between a function's parameters and its body. */
#include "sim/ptx/read.h"

static uint64_t three(struct read *r, uint32_t *ret_each)
{
	uint64_t product = 1;

	for (int i = 0; i < 3; i++) {
		uint32_t v = 1;

		if (i == 0 || read_accept(r, ","))
			v = (uint32_t)read_count(r, UINT32_MAX, "a block's dimension");
		if (ret_each)
			ret_each[i] = v;
		product = v > 1u << 20 ? 1u << 20 : product * v;
	}
	return product < 1024 ? product : 1024;
}

static void maxntid(struct read *r, struct module_kernel *k)
{
	k->info.max_threads = (uint32_t)three(r, NULL);
}

static void reqntid(struct read *r, struct module_kernel *k)
{
	k->info.max_threads = (uint32_t)three(r, k->info.reqntid);
}

static void minnctapersm(struct read *r, struct module_kernel *k)
{
	k->info.min_blocks = (uint32_t)read_count(r, UINT32_MAX, ".minnctapersm");
}

static void ignored_number(struct read *r, struct module_kernel *k)
{
	(void)k;
	(void)read_integer(r);
}

static void nothing(struct read *r, struct module_kernel *k)
{
	(void)r, (void)k;
}

static void ignored_strings(struct read *r, struct module_kernel *k)
{
	(void)k;
	while (r->token.kind == LEX_STRING) {
		read_next(r);
		read_accept(r, ",");
	}
	read_expect(r, ";");
}

static void ignored_parentheses(struct read *r, struct module_kernel *k)
{
	(void)k;
	if (read_accept(r, "("))
		while (!read_accept(r, ")") && r->token.kind != LEX_END)
			read_next(r);
}

bool read_tuning(struct read *r, struct module_kernel *k)
{
	static const struct {
		const char *word;
		void (*read)(struct read *r, struct module_kernel *k);
	} directives[] = {
		{".maxntid", maxntid},
		{".reqntid", reqntid},
		{".minnctapersm", minnctapersm},
		{".maxnctapersm", ignored_number},
		{".maxnreg", ignored_number},
		{".maxclusterrank", ignored_number},
		{".noreturn", nothing},
		{".blocksareclusters", nothing},
		{".pragma", ignored_strings},
		{".unified", ignored_parentheses},
		{".attribute", ignored_parentheses},
	};

	for (size_t i = 0; i < ARRAY_SIZE(directives); i++) {
		if (read_accept(r, directives[i].word)) {
			directives[i].read(r, k);
			return true;
		}
	}
	return false;
}
