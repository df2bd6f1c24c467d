/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A certificate and its key, for a server that speaks TLS (http/http.h). They are files, and are
 * read again when they change. Files that cannot be used do not replace those that were read
 * before. A handshake keeps the certificate with which it began.
 */
#pragma once

#include "base/fault.h"
#include "base/loop.h"

enum { HTTP_TLS_FILE_MOST = 256 << 10 /* bytes */ };

struct http_tls;

/* `certificate`: PEM, its chain behind it; `key`: PEM, without a password, which other users may
 * not read. `told` is called when they were read again: 0, or -errno with a sentence. -errno with a
 * sentence. */
must_check int http_tls_open(struct loop *loop, const char *certificate, const char *key,
			     void (*told)(void *owner, int r, const struct fault *why), void *owner,
			     struct http_tls **ret_tls, struct fault *why);
/* After the servers that use it. The loop frees it later. NULL: does nothing. */
void http_tls_close(struct http_tls *tls);

/* For http.c: the array of options for libmicrohttpd, besides MHD_USE_TLS. */
struct MHD_OptionItem;
const struct MHD_OptionItem *http_tls_options(void);
/* Sets the certificate for the handshakes that run until the next call. */
void http_tls_speak(struct http_tls *tls);

/* Pure. The beginning of a connection: 0: a whole message of TLS. -EAGAIN: it may become one.
 * -EPROTO: something else. */
must_check int http_tls_begins(const unsigned char *bytes, size_t size);
