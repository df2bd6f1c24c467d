/* SPDX-License-Identifier: Apache-2.0 */
#include "node/users/policy.h"

#include <string.h>

#include "tests/test.h"

static struct fault why;

/* alice is 1001, ml is 2001; nobody else has a name. */
static int find(void *context, bool group, const char *name, uint32_t *ret_id)
{
	(void)context;
	if (strcmp(name, group ? "ml" : "alice") != 0)
		return -ENOENT;
	*ret_id = group ? 2001 : 1001;
	return 0;
}

static const struct policy_names names = {.find = find};

static struct policy parse(const char *text)
{
	struct policy policy = {0};

	if (policy_parse("f", text, strlen(text), &names, &policy, &why) < 0)
		test_fail(__FILE__, __LINE__, "refused: %s", why.text);
	return policy;
}

static void expect_refused_at(int line, const char *text, const char *sentence)
{
	struct policy policy = {0};
	int r = policy_parse("f", text, strlen(text), &names, &policy, &why);

	if (r != -EINVAL || policy.entry)
		test_fail(__FILE__, line, "%s: gives %d", text, r);
	if (strcmp(why.text, sentence) != 0)
		test_fail(__FILE__, line, "%s: says\n %s\nwanted\n %s", text, why.text, sentence);
}

#define expect_refused(text, sentence) expect_refused_at(__LINE__, text, sentence)

TEST(an_empty_file_is_a_mistake)
{
	static const char *const texts[] = {"", "\n", "# nothing\n", "---\n", "null\n"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		expect_refused(texts[i], "f:1: the file is empty; accepted: a map (`default: {}` "
					 "is what applies without the file)");
}

TEST(an_empty_file_means_the_defaults)
{
	struct policy policy = parse("default: {}\n");
	const struct policy_terms *terms = policy_of(&policy, 1001, NULL, 0);

	expect(terms == &policy.normally && !terms->none);
	expect_eq(terms->value[POLICY_sum_tenants].number, POLICY_TENANTS);
	expect_eq(terms->value[POLICY_tenant_weight].number, 100);
	expect_eq(terms->value[POLICY_tenant_guarantee].number, 0);
	expect_eq(terms->value[POLICY_tenant_class].number, SHARE_STANDARD);
	expect_eq(terms->value[POLICY_tenant_memory].amount.milli, 0);
	policy_done(&policy);
}

TEST(a_users_entry_comes_before_a_groups_and_that_before_the_default)
{
	struct policy policy = parse("users: {alice: {tenant: {memory: 2GiB}}, 1004: none}\n"
				     "groups:\n"
				     "  ml: {tenant: {class: interactive, weight: 300}}\n"
				     "  2002: {sum: {tenants: 3}}\n"
				     "default: {tenant: {memory: 50%, guarantee: 10%}}\n");
	static const gid_t groups[] = {7, 2002, 2001};
	const struct policy_terms *terms = policy_of(&policy, 1001, groups, 3);

	expect_eq(terms->value[POLICY_tenant_memory].amount.bytes, 2ull << 30);
	expect_eq(terms->value[POLICY_tenant_memory].text_line, 1);
	/* Fields that it leaves out are the default's, although that stands below. */
	expect_eq(terms->value[POLICY_tenant_guarantee].number, 100);
	expect(policy_of(&policy, 1004, groups, 3)->none);
	/* The first in the file, not the first of the user's. */
	terms = policy_of(&policy, 1005, groups, 3);
	expect_eq(terms->value[POLICY_tenant_weight].number, 300);
	expect_eq(terms->value[POLICY_sum_tenants].number, POLICY_TENANTS);
	expect_eq(policy_of(&policy, 1005, groups, 2)->value[POLICY_sum_tenants].number, 3);
	expect(policy_of(&policy, 2001, groups, 1) == &policy.normally);
	policy_done(&policy);
}

TEST(nobody_by_default_and_some_all_the_same)
{
	struct policy policy = parse("default: none\n"
				     "users: {alice: {}}\n"
				     "together: {memory: 90%, tenants: 0}\n");

	expect(policy_of(&policy, 1, NULL, 0)->none);
	expect(!policy_of(&policy, 1001, NULL, 0)->none);
	expect_eq(policy.normally.value[POLICY_together_memory].amount.milli, 900);
	expect_eq(policy.normally.value[POLICY_together_tenants].number, 0);
	policy_done(&policy);
}

TEST(each_mistake_is_a_sentence_with_its_line_number)
{
	expect_refused("- a\n", "f:1: this is a list; accepted: a map (KEY: VALUE)");
	expect_refused("user: {}\n", "f:1: there is no key 'user'; the nearest is 'users'");
	expect_refused("\nzzz: {}\n",
		       "f:2: there is no key 'zzz'; accepted: default, groups, users, together");
	expect_refused("default: all\n", "f:1: default: this is a single value; accepted: none, or "
					 "a map with tenant and sum");
	expect_refused("default: {tenants: 3}\n",
		       "f:1: default: there is no key 'tenants'; the nearest is 'tenant'");
	expect_refused("default:\n  tenant:\n    memory: much\n",
		       "f:3: default.tenant.memory: 'much' is not understood; accepted: "
		       "bytes with a binary unit (20GiB) or a percentage (50%) of each device");
	expect_refused("default:\n  tenant: {weight: 0}\n",
		       "f:2: default.tenant.weight: '0' is zero; accepted: a whole "
		       "number from 1 to "
		       "10000");
	expect_refused("default: {tenant: {class: fast}}\n",
		       "f:1: default.tenant.class: 'fast' is not understood; accepted: "
		       "interactive, standard or batch: the highest class that is allowed");
	expect_refused(
		"default: {sum: {tenants: -1}}\n",
		"f:1: default.sum.tenants: '-1' is negative; accepted: a whole number from 0 "
		"to 768");
	expect_refused("default: {sum: {tenants: [1]}}\n",
		       "f:1: default.sum.tenants: this is a list; accepted: a whole number from 0 "
		       "to 768");
	expect_refused("users:\n  alise: none\n",
		       "f:2: users: there is no user 'alise' on this machine; accepted: a name or "
		       "a number");
	expect_refused("groups:\n  alice: none\n",
		       "f:2: groups: there is no group 'alice' on this machine; accepted: a name "
		       "or a number");
	expect_refused("users:\n  alice: none\n  1001: none\n",
		       "f:3: users: '1001' appears twice (first on line 2)");
	expect_refused("users:\n  alice: {sum: {memory: 1GiB,\n     memory: 2GiB}}\n",
		       "f:3: users.alice.sum: 'memory' appears twice (first on line 2)");
	expect_refused("default: {}\ndefault: {}\n",
		       "f:2: 'default' appears twice (first on line 1)");
	expect_refused("together: {weight: 4}\n", "f:1: together: there is no key 'weight'; "
						  "accepted: memory, guarantee, tenants");
}
