/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may see what: by the user of a Unix socket's other end, or by a token. And whether a browser
 * was led here by somebody else's page.
 */
#pragma once

#include "http/http.h"
#include "http/http_pace.h"
#include "page/host.h"
#include "page/sight.h"

enum { ACCESS_TOKEN_LEAST = 16, ACCESS_TOKEN_MOST = 512 };

struct access {
	uid_t owner;
	bool open;    /* a TCP address that needs no token */
	bool tls;     /* ... whose certificate says its names */
	bool cluster; /* tokens are the cluster's (page/rights.h) */
	char token[ACCESS_TOKEN_MOST + 1];
	char machine[256]; /* its name, under which it may be asked where a token is needed */
};

/* -errno with a sentence: an address that would show figures to whoever comes, or a token that
 * others may know. */
must_check int access_open(struct access *access, const struct page_host *host, struct fault *why);

/* 0, or the status of the refusal. The page itself shows nothing, and needs no token: `ret_sight`
 * is NULL. Where tokens are the cluster's, it sees nothing yet: whose access_bearer() is, only the
 * cluster knows. */
must_check unsigned access_check(const struct access *access, const struct http_request *request,
				 struct sight *ret_sight);

/* The token that was said, which has no blanks; "": there is none, or it is malformed. Lent. */
const char *access_bearer(const struct http_request *request);

/* Who asks, as far as that is known without a token: the host that it comes from, and for whom that
 * one speaks if it is a server in front (the last address of X-Forwarded-For). */
void access_asker(const struct http_request *request, struct http_asker *ret_asker);

/* Pure: an IP address, "localhost" or a name below it, or `machine` ("": none), each perhaps with a
 * port. Others are names that somebody else's DNS may have led here. */
bool access_names_us(const char *host, const char *machine);
