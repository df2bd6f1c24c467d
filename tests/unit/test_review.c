/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/review.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

static char *user, *name;

static int token(const char *answer, const char *audience)
{
	cJSON *tree = cJSON_Parse(answer);
	int r;

	free(user);
	free(name);
	user = name = NULL;
	r = review_read_token(tree, audience, &user, &name);
	cJSON_Delete(tree);
	return r;
}

static int right(const char *answer)
{
	cJSON *tree = cJSON_Parse(answer);
	int r = review_read_right(tree);

	cJSON_Delete(tree);
	return r;
}

static void expect_body(char *body, const char *wanted)
{
	expect(body != NULL);
	expect_str(body, wanted);
	free(body);
}

#define KNOWN                                                                                      \
	"{\"status\":{\"authenticated\":true,\"audiences\":[\"x\",\"mete.dev\"],\"user\":"         \
	"{\"username\":\"ada\",\"uid\":\"7\",\"groups\":[\"g\"],\"extra\":{\"a/b\":[\"c\"]}}}}"

TEST(a_token_is_asked_about_as_the_server_wants_it)
{
	expect_body(review_ask_token("a\"b", NULL),
		    "{\"spec\":{\"token\":\"a\\\"b\"},\"apiVersion\":\"authentication.k8s.io/v1\","
		    "\"kind\":\"TokenReview\"}");
	expect_body(review_ask_token("t", "mete.dev"),
		    "{\"spec\":{\"token\":\"t\",\"audiences\":[\"mete.dev\"]},\"apiVersion\":"
		    "\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\"}");
}

TEST(a_tokens_user_goes_whole_into_the_question_of_his_rights)
{
	const struct right one = {
		.group = "", .resource = "pods", .subresource = "", .namespace = "a", .name = "p"};

	expect_eq(token(KNOWN, NULL), 0);
	expect_str(name, "ada");
	expect_body(review_ask_right(user, &one),
		    "{\"spec\":{\"user\":\"ada\",\"uid\":\"7\",\"groups\":[\"g\"],\"extra\":{\"a/"
		    "b\":[\"c\"]},\"resourceAttributes\":{\"verb\":\"get\",\"resource\":\"pods\","
		    "\"namespace\":\"a\",\"name\":\"p\"}},\"apiVersion\":\"authorization.k8s.io/"
		    "v1\",\"kind\":\"SubjectAccessReview\"}");
	expect(review_ask_right("{}", &one) == NULL);
	expect(review_ask_right("no JSON", &one) == NULL);
}

TEST(a_token_of_nobody_or_for_somebody_else_is_nobodys)
{
	expect_eq(token("{\"status\":{}}", NULL), RIGHT_NO);
	expect_eq(token("{\"status\":{\"authenticated\":false,\"error\":\"x\"}}", NULL), RIGHT_NO);
	expect_eq(token("{\"status\":{\"authenticated\":\"true\",\"user\":{\"username\":\"a\"}}}",
			NULL),
		  RIGHT_NO);
	expect_eq(token(KNOWN, "mete.dev"), 0);
	expect_eq(token(KNOWN, "other.dev"), RIGHT_NO);
	/* A server that knows no audiences names none. */
	expect_eq(token("{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"a\"}}}",
			"mete.dev"),
		  RIGHT_NO);
}

TEST(text_that_is_no_answer_is_none)
{
	expect_eq(token("{}", NULL), -EBADMSG);
	expect_eq(token("[]", NULL), -EBADMSG);
	expect_eq(token("{\"status\":{\"authenticated\":true}}", NULL), -EBADMSG);
	expect_eq(token("{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"\"}}}", NULL),
		  -EBADMSG);
	expect_eq(right("{}"), -EBADMSG);
	expect_eq(right("{\"status\":7}"), -EBADMSG);
}

TEST(only_a_plain_yes_allows)
{
	expect_eq(right("{\"status\":{\"allowed\":true}}"), 0);
	expect_eq(right("{\"status\":{\"allowed\":false}}"), RIGHT_NO);
	expect_eq(right("{\"status\":{}}"), RIGHT_NO);
	expect_eq(right("{\"status\":{\"allowed\":\"true\"}}"), RIGHT_NO);
	expect_eq(right("{\"status\":{\"allowed\":true,\"denied\":true}}"), RIGHT_NO);
}
