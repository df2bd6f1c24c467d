/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of Allocate and checks, one after the other: which parts are idle, which requests wait for
 * which parts, and parts that an earlier meted left. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/parts_around.h"

TEST(parts_given_to_a_container_before_its_last_allocate_are_not_idle)
{
	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	around_start();
	around_give(ID "0");
	others.now_ns += 8 * S;
	around_give(ID "1");
	others.now_ns += 4 * S; /* the kubelet has not written down what the container has */
	around_do_look();
	expect_eq(around_there(), 2);
	others.now_ns += 8 * S;
	around_do_look();
	expect_eq(around_there(), 0);
	around_end();
}

TEST(recorded_parts_stay_and_go_with_their_record)
{
	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	around_start();
	around_give(ID "2");
	others.given = ID "2";
	around_do_look();
	others.now_ns += 100 * S;
	around_do_look();
	expect_eq(around_there(), 1);
	others.given = NULL;
	around_do_look();
	expect_eq(around_there(), 0);
	around_end();
}

TEST(nothing_is_removed_while_the_record_cannot_be_read)
{
	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	around_start();
	around_give(ID "2");
	others.now_ns += 100 * S;
	others.unread = -EINVAL;
	around_do_look();
	expect_eq(around_there(), 1);
	others.unread = 0;
	around_do_look();
	expect_eq(around_there(), 0);
	around_end();
}

TEST(nothing_is_made_again_before_it_is_known_which_pods_have_ended)
{
	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	plugin.api = (struct api *)&host;
	plugin.pods = (struct pods *)&host;
	others.given = ID "3";
	around_start();
	expect_eq(around_there(), 0);
	others.pods_known = true;
	around_do_look();
	expect_eq(around_there(), 1);
	around_end();
}

TEST(a_caller_that_leaves_makes_way_at_once)
{
	struct grpc_call first, second;

	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	around_start();
	around_await(&first, ID "0");
	around_await(&second, ID "1");
	around_finish(); /* it is made, and is no device of meted yet */
	expect(!first.ended && !others.work && others.looks);
	parts_call_gone(&first);
	expect(others.work); /* without a look, or a device that comes */
	around_finish();
	around_divided();
	expect(second.ended && second.status == GRPC_OK);
	around_end();
}

TEST(a_caller_may_leave_while_its_part_is_made)
{
	struct grpc_call first, second;

	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	around_start();
	around_await(&first, ID "0");
	around_await(&second, ID "1");
	parts_call_gone(&first);
	around_finish();
	expect(others.work && !second.ended);
	around_finish();
	around_divided();
	expect(second.ended && second.status == GRPC_OK);
	/* Nobody has the first: it goes. */
	around_do_look();
	expect_eq(around_there(), 1);
	around_end();
}

/* grpc_call_keep() above sees it. */
TEST(a_call_that_has_ended_is_not_used_again)
{
	struct grpc_call refused, waits;

	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	around_start();
	mig_driver.broken = 4;
	around_await(&refused, ID "4");
	around_finish();
	expect(refused.ended && strstr(refused.said, "no compute instance"));
	around_await(&waits, ID "1");
	around_finish();
	parts_abandon(parts, &serving);
	expect(waits.ended && waits.status == GRPC_UNAVAILABLE);
	around_end();
}

TEST(an_allocate_of_a_part_that_the_driver_never_lists_is_refused)
{
	struct grpc_call call;

	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	around_start();
	around_await(&call, ID "0");
	around_finish();
	while (!call.ended) {
		expect(others.looks < 10);
		parts_divided(parts);
	}
	expect(call.status != GRPC_OK && strstr(call.said, "the driver does not list it"));
	around_end();
}

TEST(the_threads_work_may_end_after_all_else)
{
	struct grpc_call call;

	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	around_start();
	around_await(&call, ID "0");
	parts_close(parts);
	expect(call.ended && call.status == GRPC_UNAVAILABLE);
	around_finish(); /* and frees it */
	expect_eq(around_there(), 1);
	parts = NULL;
	around_end();
}

TEST(parts_that_are_left_over_keep_no_other_strategy_from_beginning)
{
	around_begin(CONFIG_MIG_MIXED, ID "0\n");
	expect_eq(mig_make(&mig_driver, &mig_driver.gpu, 0, 0, NULL), 0);
	mig_driver.silent = true;
	around_start();
	expect_eq(around_there(), 1);
	mig_driver.silent = false;
	around_do_look();
	expect_eq(around_there(), 0);
	expect(!parts_asks_for_pods(parts));
	/* It has nothing to do any more. */
	parts_look(parts);
	expect(!others.work);
	around_end();
}

TEST(the_strategy_itself_does_not_begin_without_the_driver)
{
	struct fault why;

	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	mig_driver.silent = true;
	expect(parts_begin(parts, &why) < 0);
	expect_str(why.text, "migStrategy: dynamic: NVML does not answer");
	mig_driver.silent = false;
	around_start();
	around_end();
}

TEST(ended_pods_are_asked_for_only_where_parts_are_made_or_left_over)
{
	around_begin(CONFIG_MIG_MIXED, NULL);
	expect(!parts_asks_for_pods(parts));
	around_set_strategy(CONFIG_MIG_DYNAMIC);
	expect(parts_asks_for_pods(parts));
	config.has_mete = true;
	expect(!parts_asks_for_pods(parts));
	around_end();
	around_begin(CONFIG_MIG_MIXED, ID "0\n");
	expect(parts_asks_for_pods(parts));
	around_end();
}

TEST(with_a_label_that_divides_all_parts_are_the_labels)
{
	around_begin(CONFIG_MIG_MIXED, ID "0\n");
	expect_eq(mig_make(&mig_driver, &mig_driver.gpu, 0, 0, NULL), 0);
	host.mig_config = "/etc/mig.yaml";
	around_start();
	expect(access(around_record(), F_OK) != 0);
	expect(around_there() == 1 && !parts_asks_for_pods(parts));
	around_end();
}

/* How often that is on standard error since it began to be `file`. */
static unsigned logged(int file, const char *words)
{
	char text[8192];
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);
	unsigned times = 0;

	expect(n >= 0 && n < (ssize_t)sizeof(text) - 1);
	text[n] = '\0';
	for (const char *at = text; (at = strstr(at, words)); at += strlen(words))
		times++;
	return times;
}

TEST(why_names_are_not_followed_is_logged_once_for_each_reason)
{
	int file = memfd_create("log", 0), usual = dup(STDERR_FILENO);

	around_begin(CONFIG_MIG_DYNAMIC, NULL);
	around_start();
	expect(file >= 0 && usual >= 0);
	dup2(file, STDERR_FILENO);
	others.unnamed = "one";
	for (unsigned i = 0; i < 3; i++)
		around_do_look();
	others.unnamed = "another";
	around_do_look();
	others.unnamed = "";
	around_do_look();
	others.unnamed = "another";
	for (unsigned i = 0; i < 2; i++)
		around_do_look();
	dup2(usual, STDERR_FILENO);
	close(usual);
	expect_eq(logged(file, "parts.unnamed reason=\"one\""), 1);
	expect_eq(logged(file, "parts.unnamed reason=\"another\""), 2);
	close(file);
	around_end();
}
