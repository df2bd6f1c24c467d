/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api_site.h"

#include <fcntl.h>
#include <string.h>

#include <curl/curl.h>

#include "base/file.h"
#include "base/text.h"
#include "kube/api_kubeconfig.h"

#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

enum { SECRET_MAX = 1 << 20 };

OWNED_POINTER(struct api_site, api_site_close)

/* Links are followed, because the kubelet mounts tokens as links and switches these. The open never
 * waits for the writer of a pipe. */
static int read_whole(const char *path, char **ret_text, size_t *ret_size, struct stat *ret_about,
		      struct fault *why)
{
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int r;

	if (fd < 0 || fstat(fd, ret_about) != 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(ret_about->st_mode))
		return fault_set(why, -EINVAL, "%s: it is not a file", path);
	r = file_slurp_from(fd, SECRET_MAX, ret_text, ret_size);
	return r < 0 ? fault_set(why, r, "%s: %s", path, strerror(-r)) : 0;
}

/* The token goes into a header, so it must not contain a line end. */
static int check_token(struct api_secret *token, struct fault *why)
{
	size_t size = token->size;

	while (size && strchr(" \t\r\n", token->text[size - 1]))
		size--;
	for (size_t i = 0; i < size; i++)
		if (token->text[i] <= ' ' || token->text[i] > '~')
			return fault_set(why, -EINVAL, "it is not a token");
	if (!size)
		return fault_set(why, -EINVAL, "there is no token in it");
	token->text[size] = 0;
	token->size = size;
	return 0;
}

/* Complete blocks are required: the file may be read while it is being written. */
static int check_pem(struct api_secret *pem, const char *what, struct fault *why)
{
	size_t blocks = 0;

	if (strlen(pem->text) != pem->size)
		return fault_set(why, -EINVAL, "it is not in PEM format");
	for (const char *at = pem->text; (at = strstr(at, "-----BEGIN ")); blocks++) {
		const char *end = strstr(at, "-----END "), *next = strstr(at + 1, "-----BEGIN ");

		if (!end || (next && next < end))
			return fault_set(why, -EINVAL, "it ends in the middle of a PEM block");
		at = end;
	}
	if (!blocks || !strstr(pem->text, what))
		return fault_set(why, -EINVAL, "there is no %s in it (PEM format)", what);
	/* OpenSSL would ask for the password on the terminal. */
	if (strstr(pem->text, "ENCRYPTED"))
		return fault_set(why, -ENOTSUP,
				 "it is encrypted, and there is nobody to ask for the passphrase");
	return 0;
}

static int check(const struct api_site *site, const struct api_secret *secret,
		 struct api_secret *fresh, struct fault *why)
{
	if (secret == &site->token)
		return check_token(fresh, why);
	return check_pem(fresh, secret == &site->key ? "PRIVATE KEY" : "CERTIFICATE", why);
}

static void secret_done(struct api_secret *secret)
{
	if (secret->text)
		explicit_bzero(secret->text, secret->size);
	free(secret->text);
	secret->text = NULL;
}

/* Returns 1 if the file has new content, 0 if not. */
static int read_again(struct api_site *site, struct api_secret *secret, struct fault *why)
{
	struct api_secret fresh = {.path = secret->path};
	int r = read_whole(secret->path, &fresh.text, &fresh.size, &fresh.read, why);

	if (r < 0 || !fresh.text)
		return r;
	r = check(site, secret, &fresh, why);
	if (r < 0)
		fault_within(why, "%s", secret->path);
	if (r == 0 && secret->text && strcmp(fresh.text, secret->text) == 0)
		secret->read = fresh.read;
	else if (r == 0)
		r = 1;
	if (r <= 0) {
		secret_done(&fresh);
		return r;
	}
	secret_done(secret);
	*secret = fresh;
	site->generation++;
	return 1;
}

static bool has_changed(const struct api_secret *secret)
{
	const struct stat *old = &secret->read;
	struct stat now;

	if (stat(secret->path, &now) != 0)
		return false;
	return now.st_ino != old->st_ino || now.st_dev != old->st_dev ||
	       now.st_size != old->st_size || now.st_mtim.tv_sec != old->st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != old->st_mtim.tv_nsec ||
	       now.st_ctim.tv_sec != old->st_ctim.tv_sec ||
	       now.st_ctim.tv_nsec != old->st_ctim.tv_nsec;
}

void api_site_refresh(struct api_site *site, bool forced)
{
	struct api_secret *all[] = {&site->ca, &site->certificate, &site->key, &site->token};
	struct fault unsaid; /* not reported: the old content stays, and what fails with it is */

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i]->path && (forced || has_changed(all[i])))
			best_effort(read_again(site, all[i], &unsaid));
}

static int open_file(struct api_site *site, struct api_secret *secret, const char *folder,
		     size_t folder_length, const char *name, struct fault *why)
{
	int r;

	if (*name == '/')
		folder_length = 0;
	if (asprintf(&secret->path, "%.*s%s", (int)folder_length, folder, name) < 0) {
		secret->path = NULL;
		return fault_set(why, -ENOMEM, "out of memory");
	}
	r = read_again(site, secret, why);
	return r < 0 ? r : 0;
}

static int open_data(struct api_site *site, struct api_secret *secret,
		     const struct api_given *given, const char *key, struct fault *why)
{
	int r = api_base64_read(given->text, &secret->text, &secret->size);

	if (r == -EBADMSG)
		r = fault_set(why, -EINVAL, "it is not in base64");
	else if (r < 0)
		r = fault_set(why, r, "out of memory");
	else
		r = check(site, secret, secret, why);
	if (r < 0)
		fault_within(why, "line %u: %s", given->line, key);
	return r;
}

/* Sets the server from what a person wrote, without a "/" at its end. */
static int open_server(struct api_site *site, const char *server, struct fault *why)
{
	CURLU *url = curl_url();
	char *scheme = NULL, *query = NULL;
	size_t length = strlen(server);
	bool good;

	while (length && server[length - 1] == '/')
		length--;
	site->server = strndup(server, length);
	good = url && site->server &&
	       curl_url_set(url, CURLUPART_URL, site->server, CURLU_DISALLOW_USER) == CURLUE_OK &&
	       curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	       (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0) &&
	       curl_url_get(url, CURLUPART_QUERY, &query, 0) != CURLUE_OK;
	curl_free(scheme);
	curl_free(query);
	curl_url_cleanup(url);
	if (!good || strpbrk(site->server, " #?"))
		return fault_set(why, -EINVAL, "'%.200s' is not an address of a server, as in %s",
				 server, "https://10.0.0.1:6443");
	if (strncmp(site->server, "https:", 6) != 0 && (site->token.text || site->key.text))
		return fault_set(why, -EINVAL, "'%.200s': credentials are sent to https: only",
				 server);
	return 0;
}

static int open_pair(struct api_site *site, const struct api_kubeconfig *config, const char *folder,
		     size_t length, struct fault *why)
{
	int r = 0;

	if (config->certificate_data.text)
		r = open_data(site, &site->certificate, &config->certificate_data,
			      "client-certificate-data", why);
	else if (config->certificate_file.text)
		r = open_file(site, &site->certificate, folder, length,
			      config->certificate_file.text, why);
	if (r == 0 && config->key_data.text)
		r = open_data(site, &site->key, &config->key_data, "client-key-data", why);
	else if (r == 0 && config->key_file.text)
		r = open_file(site, &site->key, folder, length, config->key_file.text, why);
	if (r == 0 && !site->certificate.text != !site->key.text)
		r = fault_set(why, -EINVAL, "there is a client %s without a client %s",
			      site->key.text ? "key" : "certificate",
			      site->key.text ? "certificate" : "key");
	return r;
}

static int open_token(struct api_site *site, const struct api_kubeconfig *config,
		      const char *folder, size_t length, struct fault *why)
{
	int r;

	/* The file takes precedence over the text, because the file is rotated. */
	if (config->token_file.text)
		return open_file(site, &site->token, folder, length, config->token_file.text, why);
	if (!config->token.text)
		return 0;
	site->token.text = strdup(config->token.text);
	if (!site->token.text)
		return fault_set(why, -ENOMEM, "out of memory");
	site->token.size = strlen(site->token.text);
	r = check_token(&site->token, why);
	if (r < 0)
		fault_within(why, "line %u: token", config->token.line);
	return r;
}

static int open_kubeconfig(struct api_site *site, const char *path, struct fault *why)
{
	const char *slash = strrchr(path, '/');
	size_t folder = slash ? (size_t)(slash - path) + 1 : 0, size = 0;
	struct api_kubeconfig config;
	owned(free) char *text = NULL;
	struct stat about;
	int r = read_whole(path, &text, &size, &about, why);

	if (r < 0 || !text)
		return r;
	r = api_kubeconfig_read(text, size, &config, why);
	explicit_bzero(text, size);
	if (r < 0) {
		fault_within(why, "%s", path);
		return r;
	}
	if (config.ca_data.text)
		r = open_data(site, &site->ca, &config.ca_data, "certificate-authority-data", why);
	else if (config.ca_file.text)
		r = open_file(site, &site->ca, path, folder, config.ca_file.text, why);
	if (r == 0)
		r = open_pair(site, &config, path, folder, why);
	if (r == 0)
		r = open_token(site, &config, path, folder, why);
	if (r == 0) {
		r = open_server(site, config.server.text, why);
		if (r < 0)
			fault_within(why, "line %u: server", config.server.line);
	}
	if (r < 0)
		fault_within(why, "%s", path);
	api_kubeconfig_done(&config);
	return r;
}

static int open_account(struct api_site *site, const char *folder, struct fault *why)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	owned(free) char *in = NULL, *server = NULL;
	int r;

	if (!host || !*host || !port || !*port)
		return fault_set(
			why, -ENOENT,
			"this is not a pod (KUBERNETES_SERVICE_HOST and _PORT are not set), "
			"and no kubeconfig is given");
	if (strspn(port, "0123456789") != strlen(port))
		return fault_set(why, -EINVAL, "KUBERNETES_SERVICE_PORT: '%.20s' is not a port",
				 port);
	if (asprintf(&in, "%s/", folder ? folder : SERVICE_ACCOUNT) < 0)
		in = NULL;
	/* An IPv6 address is written in brackets. */
	if (asprintf(&server, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port) <
	    0)
		server = NULL;
	if (!in || !server)
		return fault_set(why, -ENOMEM, "out of memory");
	r = open_file(site, &site->ca, in, strlen(in), "ca.crt", why);
	if (r == 0)
		r = open_file(site, &site->token, in, strlen(in), "token", why);
	return r < 0 ? r : open_server(site, server, why);
}

int api_site_open(const struct api_place *place, struct api_site **ret_site, struct fault *why)
{
	owned(api_site_close) struct api_site *site = calloc(1, sizeof(*site));
	int r;

	if (!site)
		return fault_set(why, -ENOMEM, "out of memory");
	if (place->kubeconfig)
		r = open_kubeconfig(site, place->kubeconfig, why);
	else
		r = open_account(site, place->account_folder, why);
	if (r < 0) {
		text_make_plain(why->text);
		return r;
	}
	*ret_site = take(site);
	return 0;
}

void api_site_close(struct api_site *site)
{
	if (!site)
		return;
	secret_done(&site->ca);
	secret_done(&site->certificate);
	secret_done(&site->key);
	secret_done(&site->token);
	free(site->ca.path);
	free(site->certificate.path);
	free(site->key.path);
	free(site->token.path);
	free(site->server);
	free(site);
}
