/* SPDX-License-Identifier: Apache-2.0 */
/* Who may see the page, by what a request says of whoever asks. */
#include "page/access.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fault.h"
#include "tests/test.h"

enum { OWNER = 500, ADA = 1000 };

#define TOKEN "abababababababababababababababab"

/* What the request's header has, in its order. */
static struct {
	const char *name, *value;
} field[4];

const char *__wrap_http_header(const struct http_request *request, const char *name);
const char *__wrap_http_header_last(const struct http_request *request, const char *name);

const char *__wrap_http_header(const struct http_request *request, const char *name)
{
	(void)request;
	for (size_t i = 0; i < ARRAY_SIZE(field); i++)
		if (field[i].name && strcasecmp(field[i].name, name) == 0)
			return field[i].value;
	return NULL;
}

const char *__wrap_http_header_last(const struct http_request *request, const char *name)
{
	const char *value = NULL;

	(void)request;
	for (size_t i = 0; i < ARRAY_SIZE(field); i++)
		if (field[i].name && strcasecmp(field[i].name, name) == 0)
			value = field[i].value;
	return value;
}

static void says(size_t i, const char *name, const char *value)
{
	field[i].name = name;
	field[i].value = value;
}

static struct access access_;
static struct http_request request;
static struct sight sight;

static void given(bool local)
{
	memset(field, 0, sizeof(field));
	access_ = (struct access){.owner = OWNER, .machine = "gpu1"};
	request = (struct http_request){.local = local, .uid = ADA};
	sight = (struct sight){.uid = 77};
}

static unsigned asks(void)
{
	return access_check(&access_, &request, &sight);
}

static unsigned asks_with(const char *authorization)
{
	says(0, "Authorization", authorization);
	return asks();
}

TEST(a_user_of_the_machine_sees_his_own_and_only_root_and_who_runs_meted_see_all)
{
	given(true);
	expect_eq(asks(), 0);
	expect(!sight.all && sight.uid == ADA);
	request.uid = OWNER;
	expect_eq(asks(), 0);
	expect(sight.all && sight.uid == OWNER);
	request.uid = 0;
	expect_eq(asks(), 0);
	expect(sight.all);
}

TEST(whoever_comes_by_tcp_says_the_whole_token_and_nothing_else)
{
	static const char *const wrong[] = {"",
					    "Bearer",
					    "Bearer ",
					    "Bearer ab",
					    "Bearer " TOKEN "ab",
					    "Bearer " TOKEN TOKEN,
					    "Bearer bbababababababababababababababab",
					    "Bearer ababababababababababababababababb",
					    "Bearer ab " TOKEN,
					    TOKEN,
					    "Basic " TOKEN,
					    "Bearer " TOKEN "\n"};

	given(false);
	strcpy(access_.token, TOKEN);
	expect_eq(asks(), 401);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		if (asks_with(wrong[i]) != 401)
			fail_msg("'%s' is let in", wrong[i]);
	expect_eq(asks_with("bearer  " TOKEN), 0);
	expect(sight.all);
	/* Without one nobody is let in, unless the page is open. */
	access_.token[0] = '\0';
	expect_eq(asks_with("Bearer "), 401);
	access_.open = true;
	expect_eq(asks_with("Bearer "), 0);
	expect(sight.all);
}

TEST(where_tokens_are_the_clusters_nobody_sees_anything_before_it_was_asked)
{
	given(false);
	access_.cluster = true;
	expect_eq(asks(), 401);
	expect_eq(asks_with("Bearer anything"), 0);
	expect(!sight.all && sight.uid == (uid_t)-1);
}

TEST(a_page_of_another_site_gets_no_figures)
{
	static const char *const sites[] = {"cross-site", "same-site", ""};

	given(true);
	for (size_t i = 0; i < ARRAY_SIZE(sites); i++) {
		says(0, "Sec-Fetch-Site", sites[i]);
		expect_eq(asks(), 403);
	}
	/* The page itself shows nothing. */
	expect_eq(access_check(&access_, &request, NULL), 0);
	says(0, "Sec-Fetch-Site", "same-origin");
	expect_eq(asks(), 0);
	says(0, "Sec-Fetch-Site", "none");
	expect_eq(asks(), 0);
}

TEST(a_name_that_is_not_ours_is_refused_unless_a_token_or_a_certificate_says_more)
{
	given(false);
	access_.open = true;
	says(1, "Host", "evil.example");
	expect_eq(asks(), 421);
	expect_eq(access_check(&access_, &request, NULL), 421);
	says(1, "Host", "gpu1:9401");
	expect_eq(asks(), 0);
	/* Behind a certificate a token is needed, which no browser sends by itself. */
	says(1, "Host", "evil.example");
	access_.open = false;
	strcpy(access_.token, TOKEN);
	expect_eq(asks_with("Bearer " TOKEN), 421);
	access_.tls = true;
	expect_eq(asks_with("Bearer " TOKEN), 0);
	request.local = true;
	expect_eq(asks(), 421);
	given(false);
	access_.cluster = true;
	says(1, "Host", "node7.example");
	expect_eq(asks_with("Bearer x"), 0);
}

static uint64_t part(void)
{
	struct http_asker asker;

	access_asker(&request, &asker);
	return asker.part;
}

TEST(behind_a_server_only_what_that_has_added_tells_users_apart)
{
	uint64_t ada, bob;

	given(false);
	expect_eq(part(), 0);
	says(0, "X-Forwarded-For", "192.0.2.1");
	ada = part();
	says(0, "X-Forwarded-For", "192.0.2.2");
	bob = part();
	expect(ada && bob && ada != bob);
	says(0, "X-Forwarded-For", "192.0.2.2, 192.0.2.1");
	expect_eq(part(), ada);
	says(1, "x-forwarded-for", "made up,192.0.2.2");
	expect_eq(part(), bob);
}

/* ---- addresses and files --------------------------------------------------------------------- */

static int opens(struct page_host host)
{
	struct fault why;

	host.owner = OWNER;
	return access_open(&access_, &host, &why);
}

static int opens_at(const char *page, bool open, const char *token)
{
	return opens((struct page_host){.page = page, .open = open, .token = token});
}

TEST(an_address_that_others_reach_needs_a_token)
{
	expect_eq(opens_at("127.0.0.1:9401", false, NULL), -EPERM);
	expect_eq(opens_at("192.0.2.1:9401", true, NULL), -EPERM);
	expect_eq(opens_at("[2001:db8::1]:9401", true, NULL), -EPERM);
	expect_eq(opens_at("[::1]:9401", true, NULL), 0);
	expect_eq(opens_at("127.9.9.9:9401", true, NULL), 0);
	expect(access_.open && access_.owner == OWNER);
	expect_eq(opens_at("/run/x", false, NULL), 0);
	expect(!access_.open);
	expect_eq(opens_at("/run/x", true, NULL), -EPERM);
}

TEST(one_way_to_tell_users_apart_is_enough_and_it_suits_the_address)
{
	expect_eq(opens_at("127.0.0.1:9401", true, "/dev/null"), -EINVAL);
	expect_eq(opens((struct page_host){.page = ":9401", .believed_ns = 1}), 0);
	expect(access_.cluster);
	expect_eq(opens((struct page_host){.page = "127.0.0.1:1", .open = true, .believed_ns = 1}),
		  -EINVAL);
	expect_eq(opens((struct page_host){.page = "/x", .believed_ns = 1}), -EINVAL);
	expect_eq(opens((struct page_host){.open = true}), -EINVAL);
	expect_eq(opens((struct page_host){.believed_ns = 1}), -EINVAL);
	expect_eq(opens((struct page_host){0}), 0);
}

static int with_file(const char *content, mode_t mode)
{
	char path[] = "/tmp/mete-token-XXXXXX";
	int fd = mkstemp(path), r;

	expect(fd >= 0);
	expect_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
	expect_eq(fchmod(fd, mode), 0);
	close(fd);
	r = opens_at(":9401", false, path);
	unlink(path);
	return r;
}

TEST(a_token_is_in_a_file_that_others_cannot_read)
{
	expect_eq(with_file(TOKEN "\n", 0600), 0);
	expect_str(access_.token, TOKEN);
	expect_eq(with_file(TOKEN " \n\n", 0400), 0);
	expect_str(access_.token, TOKEN);
	expect_eq(with_file(TOKEN, 0640), -EPERM);
	expect_eq(with_file(TOKEN, 0604), -EPERM);
	expect_eq(with_file("short\n", 0600), -EINVAL);
	expect_eq(with_file("abababab abababab", 0600), -EINVAL);
	expect_eq(with_file("abababab\x80"
			    "abababab",
			    0600),
		  -EINVAL);
	expect_eq(opens_at(":9401", false, "/"), -EINVAL);
	expect_eq(opens_at(":9401", false, "/nowhere/token"), -ENOENT);
}
