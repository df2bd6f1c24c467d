/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_tls.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>

#include "base/file.h"
#include "base/file_watch.h"

enum { RECORD_HEAD = 5, RECORD_HANDSHAKE = 22 }; /* RFC 8446, 5.1 */

/* For changes that no watch reports: behind a link in the folder, or of a mode. */
static const uint64_t again_ns = 60ull * 1000000000;

/* The files' contents, as read and as parsed. */
struct pair {
	char *certificate_text, *key_text;
	gnutls_x509_crt_t *chain;
	unsigned chain_size;
	gnutls_x509_privkey_t key;
};

struct http_tls {
	char *certificate, *key; /* the files */
	struct pair pair;
	struct file_watch certificate_watch, key_watch;
	struct loop_timer again;
	struct fault refused; /* the failure that was reported last; empty: success */
	void (*told)(void *owner, int r, const struct fault *why);
	void *owner;
};

/* GnuTLS asks for a certificate without saying for which server. The loop has one thread. */
static struct http_tls *speaking;

void http_tls_speak(struct http_tls *tls)
{
	speaking = tls;
}

static void pair_done(struct pair *pair)
{
	for (unsigned i = 0; i < pair->chain_size; i++)
		gnutls_x509_crt_deinit(pair->chain[i]);
	gnutls_free(pair->chain);
	gnutls_x509_privkey_deinit(pair->key);
	free(pair->certificate_text);
	if (pair->key_text)
		explicit_bzero(pair->key_text, strlen(pair->key_text));
	free(pair->key_text);
	*pair = (struct pair){0};
}

/* `secret`: other users must not be able to read it. NULL with a sentence. */
static char *read_file(const char *path, bool secret, struct fault *why)
{
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat about;
	char *text = NULL;
	size_t size;
	int r = 0;

	if (fd < 0 || fstat(fd, &about) != 0)
		r = fault_set(why, -errno, "%.200s: %s", path, strerror(errno));
	else if (!S_ISREG(about.st_mode))
		r = fault_set(why, -EINVAL, "%.200s: not a file", path);
	else if (secret &&
		 ((about.st_uid != geteuid() && about.st_uid != 0) || (about.st_mode & 07)))
		r = fault_set(
			why, -EPERM,
			"%.200s: every user may read it, or it is another user's; accepted: a "
			"file of meted's user or of root with mode 0600 or 0640",
			path);
	if (r < 0)
		return NULL;
	r = file_slurp_from(fd, HTTP_TLS_FILE_MOST, &text, &size);
	if (r < 0)
		best_effort(fault_set(why, r, "%.200s: %s", path, strerror(-r)));
	return r < 0 ? NULL : text;
}

static int understand_certificate(const char *path, struct pair *pair, struct fault *why)
{
	const gnutls_datum_t text = {(unsigned char *)pair->certificate_text,
				     (unsigned)strlen(pair->certificate_text)};
	int r = gnutls_x509_crt_list_import2(&pair->chain, &pair->chain_size, &text,
					     GNUTLS_X509_FMT_PEM,
					     GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);

	if (r >= 0)
		return 0;
	pair->chain = NULL;
	pair->chain_size = 0;
	return fault_set(why, -EINVAL,
			 "%.200s: %s; accepted: a certificate in PEM, and behind it those that "
			 "lead to its issuer, in this order",
			 path, gnutls_strerror(r));
}

static int understand_key(const char *path, struct pair *pair, struct fault *why)
{
	const gnutls_datum_t text = {(unsigned char *)pair->key_text,
				     (unsigned)strlen(pair->key_text)};
	int r = gnutls_x509_privkey_init(&pair->key);

	if (r >= 0)
		r = gnutls_x509_privkey_import2(pair->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
	return r >= 0 ? 0
		      : fault_set(why, -EINVAL,
				  "%.200s: %s; accepted: a private key in PEM, without a password",
				  path, gnutls_strerror(r));
}

static bool fit(const struct pair *pair)
{
	unsigned char of_certificate[64], of_key[64];
	size_t size = sizeof(of_certificate), key_size = sizeof(of_key);

	return gnutls_x509_crt_get_key_id(pair->chain[0], 0, of_certificate, &size) >= 0 &&
	       gnutls_x509_privkey_get_key_id(pair->key, 0, of_key, &key_size) >= 0 &&
	       size == key_size && memcmp(of_certificate, of_key, size) == 0;
}

static int read_pair(const struct http_tls *tls, struct pair *ret_pair, struct fault *why)
{
	struct pair pair = {0};
	int r = -EINVAL;

	pair.certificate_text = read_file(tls->certificate, false, why);
	if (pair.certificate_text)
		pair.key_text = read_file(tls->key, true, why);
	if (pair.key_text)
		r = understand_certificate(tls->certificate, &pair, why);
	if (r == 0)
		r = understand_key(tls->key, &pair, why);
	if (r == 0 && !fit(&pair))
		r = fault_set(why, -EINVAL, "%.100s is not the key of the certificate %.100s",
			      tls->key, tls->certificate);
	if (r < 0)
		pair_done(&pair);
	else
		*ret_pair = pair;
	return r;
}

static void read_again(struct http_tls *tls)
{
	struct fault why = {0};
	struct pair pair;
	int r = read_pair(tls, &pair, &why);

	if (r == 0 && strcmp(pair.certificate_text, tls->pair.certificate_text) == 0 &&
	    strcmp(pair.key_text, tls->pair.key_text) == 0) {
		pair_done(&pair);
		tls->refused = (struct fault){0};
		return;
	}
	if (r == 0) {
		pair_done(&tls->pair);
		tls->pair = pair;
	} else if (strcmp(why.text, tls->refused.text) == 0) {
		return;
	}
	tls->refused = why;
	tls->told(tls->owner, r, &why);
}

static void on_again(struct loop_timer *timer)
{
	read_again(container_of(timer, struct http_tls, again));
	loop_arm(timer, again_ns);
}

static void on_certificate(struct file_watch *watch)
{
	read_again(container_of(watch, struct http_tls, certificate_watch));
}

static void on_key(struct file_watch *watch)
{
	read_again(container_of(watch, struct http_tls, key_watch));
}

static void tls_free(struct http_tls *tls)
{
	pair_done(&tls->pair);
	free(tls->certificate);
	free(tls->key);
	free(tls);
}

static void on_again_closed(struct loop_timer *timer)
{
	tls_free(container_of(timer, struct http_tls, again));
}

static void close_again(struct http_tls *tls)
{
	if (tls->again.open)
		loop_timer_close(&tls->again, on_again_closed);
	else
		tls_free(tls);
}

static void on_key_closed(struct file_watch *watch)
{
	close_again(container_of(watch, struct http_tls, key_watch));
}

static void on_certificate_closed(struct file_watch *watch)
{
	struct http_tls *tls = container_of(watch, struct http_tls, certificate_watch);

	if (!file_watch_close(&tls->key_watch, on_key_closed))
		close_again(tls);
}

void http_tls_close(struct http_tls *tls)
{
	if (tls && !file_watch_close(&tls->certificate_watch, on_certificate_closed))
		on_certificate_closed(&tls->certificate_watch);
}

int http_tls_open(struct loop *loop, const char *certificate, const char *key,
		  void (*told)(void *owner, int r, const struct fault *why), void *owner,
		  struct http_tls **ret_tls, struct fault *why)
{
	struct http_tls *tls = calloc(1, sizeof(*tls));
	int r;

	if (!tls)
		return fault_set(why, -ENOMEM, "out of memory");
	tls->told = told;
	tls->owner = owner;
	tls->certificate = strdup(certificate);
	tls->key = strdup(key);
	r = tls->certificate && tls->key ? 0 : fault_set(why, -ENOMEM, "out of memory");
	/* Watched before they are read: no change is missed. */
	if (r == 0)
		r = file_watch_open(loop, &tls->certificate_watch, certificate, on_certificate,
				    why);
	if (r == 0)
		r = file_watch_open(loop, &tls->key_watch, key, on_key, why);
	if (r == 0)
		r = read_pair(tls, &tls->pair, why);
	if (r == 0) {
		r = loop_timer_init(loop, &tls->again, on_again);
		if (r < 0)
			best_effort(fault_set(why, r, "a timer: %s", strerror(-r)));
	}
	if (r < 0) {
		http_tls_close(tls);
		return r;
	}
	loop_arm(&tls->again, again_ns);
	*ret_tls = tls;
	return 0;
}

static void free_certificates(gnutls_pcert_st *certificate, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		gnutls_pcert_deinit(&certificate[i]);
	gnutls_free(certificate);
}

/* NULL without memory. */
static gnutls_pcert_st *copy_chain(const struct pair *pair)
{
	gnutls_pcert_st *copy = gnutls_calloc(pair->chain_size, sizeof(*copy));

	for (unsigned i = 0; copy && i < pair->chain_size; i++)
		if (gnutls_pcert_import_x509(&copy[i], pair->chain[i], 0) < 0) {
			free_certificates(copy, i);
			return NULL;
		}
	return copy;
}

/* A handshake gets its own copies, which GnuTLS frees. */
static int show(gnutls_session_t session, const struct gnutls_cert_retr_st *about,
		gnutls_pcert_st **ret_chain, unsigned *ret_size, gnutls_ocsp_data_st **ret_ocsp,
		unsigned *ret_ocsp_size, gnutls_privkey_t *ret_key, unsigned *ret_flags)
{
	const struct pair *pair = &speaking->pair;
	gnutls_pcert_st *chain = copy_chain(pair);
	gnutls_privkey_t key = NULL;

	(void)session;
	(void)about;
	if (!chain || gnutls_privkey_init(&key) < 0 ||
	    gnutls_privkey_import_x509(key, pair->key, GNUTLS_PRIVKEY_IMPORT_COPY) < 0) {
		gnutls_privkey_deinit(key);
		free_certificates(chain, chain ? pair->chain_size : 0);
		return -1;
	}
	*ret_chain = chain;
	*ret_size = pair->chain_size;
	*ret_ocsp = NULL;
	*ret_ocsp_size = 0;
	*ret_key = key;
	*ret_flags = GNUTLS_CERT_RETR_DEINIT_ALL;
	return 0;
}

const struct MHD_OptionItem *http_tls_options(void)
{
	/* The client chooses what a handshake costs us: no groups of finite fields, whose
	 * exponentiations take tens of milliseconds, and nothing without forward secrecy. */
	static char accepted[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-DHE-RSA:-RSA:"
				 "-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1";
	static const struct MHD_OptionItem options[] = {
		{MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)show},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, accepted},
		{MHD_OPTION_END, 0, NULL}};

	return options;
}

int http_tls_begins(const unsigned char *bytes, size_t size)
{
	if (!size)
		return -EAGAIN;
	if (bytes[0] != RECORD_HANDSHAKE)
		return -EPROTO;
	if (size < RECORD_HEAD)
		return -EAGAIN;
	return size >= RECORD_HEAD + ((size_t)bytes[3] << 8) + bytes[4] ? 0 : -EAGAIN;
}
