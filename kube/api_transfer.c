/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"
#include "kube/api_inside.h"

static void mark_ready(struct api_transfer *transfer)
{
	if (!list_linked(&transfer->ready))
		list_append(&transfer->api->ready, &transfer->ready);
}

static size_t on_body(char *bytes, size_t one, size_t size, void *context)
{
	struct api_transfer *transfer = context;
	int r = api_stream_add(transfer->into, bytes, one * size);

	if (r == -EFBIG)
		transfer->large = true;
	if (r < 0)
		return CURL_WRITEFUNC_ERROR;
	mark_ready(transfer);
	return one * size;
}

static size_t on_header(char *line, size_t one, size_t size, void *context)
{
	struct api_transfer *transfer = context;
	long status = 0;

	if (one * size == 2 && memcmp(line, "\r\n", 2) == 0) {
		curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
		if (status >= 200) { /* not "100 Continue" */
			transfer->status = (int)status;
			transfer->answered = true;
			mark_ready(transfer);
		}
	}
	return one * size;
}

/* A peer that has vanished is noticed within a minute, whether we are waiting or sending. */
static int on_socket_made(void *context, curl_socket_t fd, curlsocktype purpose)
{
	int idle_s = 20, pause_s = 10, probes = 3;
	unsigned gone_ms = 50000;

	(void)context;
	(void)purpose;
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause_s, sizeof(pause_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &gone_ms, sizeof(gone_ms));
	idle_s = 1;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &idle_s, sizeof(idle_s));
	return CURL_SOCKOPT_OK;
}

static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

int api_wanted_check(const struct api_wanted *wanted)
{
	size_t letters = strspn(wanted->verb, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	if (!letters || wanted->verb[letters])
		return -EINVAL;
	if (*wanted->path != '/' || !is_plain(wanted->path) || strchr(wanted->path, '#'))
		return -EINVAL;
	for (const char *at = wanted->content; at && *at; at++)
		if (*at < ' ' || *at > '~')
			return -EINVAL;
	return 0;
}

static int add_header(struct api_transfer *transfer, const char *name, const char *value)
{
	owned(free) char *line = NULL;
	struct curl_slist *grown;

	if (asprintf(&line, "%s: %s", name, value) < 0) {
		line = NULL;
		return -ENOMEM;
	}
	grown = curl_slist_append(transfer->headers, line);
	if (!grown)
		return -ENOMEM;
	transfer->headers = grown;
	return 0;
}

static int set_headers(struct api_transfer *transfer, const struct api_wanted *wanted)
{
	const struct api_secret *token = &transfer->api->site->token;
	owned(free) char *bearer = NULL;
	int r = add_header(transfer, "Accept", "application/json");

	/* An empty value removes the header: we do not wait for a "100 Continue", which
	 * some servers never send. */
	if (r == 0)
		r = add_header(transfer, "Expect", "");
	if (r == 0 && wanted->body)
		r = add_header(transfer, "Content-Type",
			       wanted->content ? wanted->content : "application/json");
	if (r < 0 || !token->text)
		return r;
	if (asprintf(&bearer, "Bearer %s", token->text) < 0) {
		bearer = NULL;
		return -ENOMEM;
	}
	return add_header(transfer, "Authorization", bearer);
}

static CURLcode set_secret(CURL *easy, CURLoption option, const struct api_secret *secret)
{
	struct curl_blob blob = {secret->text, secret->size, CURL_BLOB_COPY};

	return secret->text ? curl_easy_setopt(easy, option, &blob) : CURLE_OK;
}

static CURLcode set_trust(CURL *easy, const struct api_site *site)
{
	CURLcode r = set_secret(easy, CURLOPT_CAINFO_BLOB, &site->ca);

	if (r == CURLE_OK)
		r = set_secret(easy, CURLOPT_SSLCERT_BLOB, &site->certificate);
	if (r == CURLE_OK)
		r = set_secret(easy, CURLOPT_SSLKEY_BLOB, &site->key);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(easy, CURLOPT_KEYPASSWD, ""); /* otherwise OpenSSL asks on the terminal */
	return r;
}

static CURLcode set_body(CURL *easy, const struct api_wanted *wanted)
{
	const char *body = wanted->body;

	if (strcmp(wanted->verb, "HEAD") == 0)
		return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	if (!body && strcmp(wanted->verb, "GET") != 0 && strcmp(wanted->verb, "DELETE") != 0)
		body = ""; /* sends "Content-Length: 0" */
	if (body) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
	}
	return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, wanted->verb);
}

static CURLcode set_manners(struct api_transfer *transfer, const struct api_wanted *wanted)
{
	const struct api_pace *pace = &transfer->api->pace;
	CURL *easy = transfer->easy;

	curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->said);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket_made);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* An abandoned lookup is left to its thread: closing never waits for it. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	/* A server that identifies us as curl indents its JSON, over several lines. */
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "mete");
	/* HTTP/2 in Debian 12's libcurl fails occasionally when a connection is reused. */
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	/* The API server is contacted directly, regardless of proxies in our environment. */
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(pace->connect_ns / 1000000));
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(wanted->within_ns / 1000000 + 1));
	return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
}

static int set_all(struct api_transfer *transfer, const struct api_wanted *wanted)
{
	struct api_site *site = transfer->api->site;
	owned(free) char *url = NULL;
	CURLcode code;
	int r = set_headers(transfer, wanted);

	if (r == 0 && asprintf(&url, "%s%s%s", site->server, wanted->path,
			       wanted->query ? wanted->query : "") < 0) {
		url = NULL;
		r = -ENOMEM;
	}
	if (r < 0)
		return r;
	code = set_manners(transfer, wanted);
	if (code == CURLE_OK)
		code = set_trust(transfer->easy, site);
	if (code == CURLE_OK)
		code = set_body(transfer->easy, wanted);
	if (code == CURLE_OK)
		code = curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers);
	if (code == CURLE_OK)
		code = curl_easy_setopt(transfer->easy, CURLOPT_URL, url);
	return code == CURLE_OK ? 0 : code == CURLE_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

int api_transfer_start(struct api *api, struct api_transfer *transfer,
		       const struct api_wanted *wanted, struct api_stream *into,
		       void (*moved)(struct api_transfer *transfer))
{
	int r;

	api_stream_clear(into);
	api_site_refresh(api->site, false);
	*transfer = (struct api_transfer){
		.api = api,
		.easy = api->spare ? take(api->spare) : curl_easy_init(),
		.into = into,
		.moved = moved,
		.generation = api->site->generation,
	};
	if (!transfer->easy)
		return -ENOMEM;
	r = set_all(transfer, wanted);
	if (r == 0 && curl_multi_add_handle(api->multi, transfer->easy) != CURLM_OK)
		r = -ENOMEM;
	if (r < 0)
		api_transfer_end(transfer);
	return r;
}

void api_transfer_end(struct api_transfer *transfer)
{
	struct api *api = transfer->api;

	list_remove(&transfer->ready);
	if (!transfer->easy)
		return;
	curl_multi_remove_handle(api->multi, transfer->easy);
	curl_easy_reset(transfer->easy); /* its options point to our memory */
	if (api->spare)
		curl_easy_cleanup(transfer->easy);
	else
		api->spare = transfer->easy;
	transfer->easy = NULL;
	curl_slist_free_all(transfer->headers);
	transfer->headers = NULL;
}

/* libcurl's own messages contain times, so the same problem would never have the same text
 * twice. */
void api_transfer_say(const struct api_transfer *transfer, struct fault *ret_why)
{
	const char *server = transfer->api->site->server;
	long error = 0;

	switch ((int)transfer->result) {
	case CURLE_WRITE_ERROR:
		if (transfer->large)
			fault_set(ret_why, 0, "%.200s: the answer is larger than %s", server,
				  text_bytes(transfer->into->most).text);
		else
			fault_set(ret_why, 0, "%.200s: out of memory", server);
		break;
	case CURLE_OPERATION_TIMEDOUT:
		fault_set(ret_why, 0, "%.200s: no answer in time", server);
		break;
	case CURLE_COULDNT_CONNECT:
		if (transfer->easy)
			curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &error);
		fault_set(ret_why, 0, "%.200s: %s", server,
			  error ? strerror((int)error) : "it cannot be reached");
		break;
	default:
		fault_set(ret_why, 0, "%.200s: %s", server,
			  *transfer->said ? transfer->said : curl_easy_strerror(transfer->result));
	}
	text_make_plain(ret_why->text);
}

bool api_transfer_is_stale(struct api_transfer *transfer)
{
	struct api_site *site = transfer->api->site;

	switch ((int)transfer->result) {
	case CURLE_OK:
		if (transfer->status != 401)
			return false;
		break;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CONNECT_ERROR:
		break;
	default:
		return false;
	}
	api_site_refresh(site, true);
	return site->generation != transfer->generation;
}
