/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api_kubeconfig.h"

#include "tests/test.h"

static struct api_kubeconfig config;
static struct fault why;

static int read_text(const char *text)
{
	api_kubeconfig_done(&config);
	return api_kubeconfig_read(text, strlen(text), &config, &why);
}

#define CONTEXT                                                                                    \
	"apiVersion: v1\n"                                                                         \
	"current-context: here\n"                                                                  \
	"contexts:\n"                                                                              \
	"- name: there\n"                                                                          \
	"  context: {cluster: absent}\n"                                                           \
	"- name: here\n"                                                                           \
	"  context: {cluster: c, user: u}\n"
#define CLUSTER                                                                                    \
	"clusters:\n"                                                                              \
	"- {name: c, cluster: {server: \"https://a:1\", certificate-authority: ca}}\n"

TEST(the_current_contexts_cluster_and_user_are_taken)
{
	expect_eq(read_text(CONTEXT CLUSTER "users:\n"
					    "- name: other\n"
					    "  user: {token: wrong}\n"
					    "- name: u\n"
					    "  user:\n"
					    "    client-certificate: cert\n"
					    "    client-key-data: a2V5\n"
					    "    token: t\n"
					    "    tokenFile: f\n"),
		  0);
	expect_str(config.server.text, "https://a:1");
	expect_eq(config.server.line, 9);
	expect_str(config.ca_file.text, "ca");
	expect(!config.ca_data.text && !config.certificate_data.text && !config.key_file.text);
	expect_str(config.certificate_file.text, "cert");
	expect_str(config.key_data.text, "a2V5");
	expect_str(config.token.text, "t");
	expect_str(config.token_file.text, "f");
	expect_eq(config.token_file.line, 18);
	api_kubeconfig_done(&config);
}

TEST(a_context_without_a_user_has_no_credentials)
{
	expect_eq(read_text("current-context: x\n"
			    "contexts: [{name: x, context: {cluster: c, user: ''}}]\n" CLUSTER),
		  0);
	expect(!config.token.text);
	api_kubeconfig_done(&config);
}

TEST(a_mark_of_the_byte_order_is_not_read)
{
	expect_eq(
		read_text("\xef\xbb\xbf" CONTEXT CLUSTER "users: [{name: u, user: {token: t}}]\n"),
		0);
	expect_str(config.server.text, "https://a:1");
	api_kubeconfig_done(&config);
}

TEST(empty_values_and_null_are_as_if_they_were_not_there)
{
	expect_eq(read_text(CONTEXT CLUSTER
			    "users: [{name: u, user: {token: '', tokenFile: null, exec: null, "
			    "username: \"\"}}]\n"),
		  0);
	expect(!config.token.text && !config.token_file.text);
	api_kubeconfig_done(&config);
}

TEST(a_mistake_is_a_sentence_with_its_line_number)
{
	static const struct {
		const char *text, *sentence;
	} rows[] = {
		{"", "it is not a kubeconfig"},
		{"- a\n", "it is not a kubeconfig"},
		{"a: b\n", "there is no current-context"},
		{"current-context: x\ncontexts: y\n", "there is no list 'contexts'"},
		{"current-context: x\ncontexts:\n- name: y\n", "line 3: contexts has no 'x'"},
		{"current-context: x\ncontexts:\n- name: x\n",
		 "line 3: 'x' of contexts has no 'context'"},
		{"current-context: x\ncontexts:\n- name: x\n  context: {user: u}\n",
		 "line 4: the context names no cluster"},
		{CONTEXT, "there is no list 'clusters'"},
		{CONTEXT "clusters: [{name: c, cluster: {server: [1]}}]\n",
		 "line 8: server is not a text"},
		{CONTEXT CLUSTER "users: [{name: u, user: {auth-provider: {name: gcp}}}]\n",
		 "line 10: auth-provider is not supported: use a client certificate, token or "
		 "tokenFile"},
		{CONTEXT "clusters: [{name: c, cluster: {server: s, tls-server-name: x}}]\n",
		 "line 8: tls-server-name is not supported: use a server name that its "
		 "certificate has"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		expect(read_text(rows[i].text) < 0);
		expect_str(why.text, rows[i].sentence);
	}
	expect_eq(read_text("a: 'b\n"), -EINVAL);
	expect(strncmp(why.text, "line 2: ", 8) == 0);
}

/* libyaml alone takes quadratic time for this. */
TEST(deep_nesting_is_refused_early)
{
	static char deep[API_KUBECONFIG_MAX];

	memset(deep, '[', sizeof(deep) - 1);
	expect_eq(read_text(deep), -EINVAL);
	expect_str(why.text, "line 1: it is nested too deeply");
	for (size_t i = 0; i + 2 < sizeof(deep); i += 2)
		memcpy(deep + i, "- ", 2);
	expect_eq(read_text(deep), -EINVAL);
}

TEST(aliases_are_followed_and_circles_end)
{
	expect_eq(read_text("current-context: x\n"
			    "contexts: &c [{name: x, context: &d {cluster: x, user: x}}]\n"
			    "clusters: [{name: x, cluster: &e {server: 'https://a', x: *c}}]\n"
			    "users: [{name: x, user: &u {token: t, self: *u}}]\n"),
		  0);
	expect_str(config.token.text, "t");
	api_kubeconfig_done(&config);
}

static void expect_base64(const char *text, const char *wanted)
{
	owned(free) char *bytes = NULL;
	size_t size;

	expect_eq(api_base64_read(text, &bytes, &size), 0);
	expect_eq(size, strlen(wanted));
	expect_str(bytes, wanted);
}

TEST(base64_is_read_with_white_space_and_padding)
{
	char *bytes;
	size_t size;
	static const char *const bad[] = {"a",	  "ab",	      "abc",  "a===", "=",     "====",
					  "ab=c", "ab==ab==", "ab-_", "ab=",  "abcd=", "?"};

	expect_base64("", "");
	expect_base64("YQ==", "a");
	expect_base64("YWI=", "ab");
	expect_base64("YWJj", "abc");
	expect_base64(" Y W\nJj\r\nZA =\t=\n", "abcd");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect_eq(api_base64_read(bad[i], &bytes, &size), -EBADMSG);
}
