/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any file: a refusal is a sentence with file and line number that can be shown, and leaves nothing
 * behind; an accepted one has everybody's terms within their bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "node/users/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static void must_be_sentence(const char *text)
{
	char copy[sizeof(struct fault)];

	must(strncmp(text, "fuzz:", 5) == 0 && text[5] >= '1' && text[5] <= '9');
	must(strlen(text) < sizeof(copy));
	strcpy(copy, text);
	text_make_plain(copy);
	must(strcmp(copy, text) == 0);
}

static int find(void *context, bool group, const char *name, uint32_t *ret_id)
{
	(void)context;
	(void)group;
	*ret_id = (uint32_t)strlen(name);
	return *name == 'x' ? -ENOENT : 0;
}

static void check(const struct policy_terms *terms)
{
	const struct policy_value *value = terms->value;

	must(value[POLICY_tenant_memory].amount.milli <= 1000);
	must(value[POLICY_tenant_weight].number >= 1 &&
	     value[POLICY_tenant_weight].number <= 10000);
	must(value[POLICY_tenant_guarantee].number <= 1000);
	must(value[POLICY_tenant_class].number <= SHARE_BATCH);
	must(value[POLICY_sum_weight].number >= 1);
	must(value[POLICY_sum_tenants].number <= 768);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct policy_names names = {.find = find};
	static const gid_t groups[] = {2, 5, 100};
	struct policy policy = {0};
	struct fault why = {.text = ""};

	if (policy_parse("fuzz", (const char *)data, size, &names, &policy, &why) < 0) {
		must_be_sentence(why.text);
		must(!policy.entry);
		return 0;
	}
	must(policy.entries <= POLICY_ENTRIES_MAX);
	for (uid_t user = 0; user < 8; user++)
		check(policy_of(&policy, user, groups, user % 4));
	for (uint32_t i = 0; i < policy.entries; i++)
		check(&policy.entry[i].terms);
	policy_done(&policy);
	return 0;
}
