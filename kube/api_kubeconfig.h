/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kubeconfig: the cluster and the user of its current context. Pure: text in, strings out.
 * Unsupported settings that would change the meaning (programs that provide credentials, unchecked
 * certificates) are refused with a sentence, never ignored.
 */
#pragma once

#include "base/fault.h"

enum {
	API_KUBECONFIG_MAX = 1 << 20,
	API_KUBECONFIG_DEPTH = 32, /* YAML parsers are slow on deep nesting */
};

/* A value and its line. `text` is owned; NULL: the value is not given. */
struct api_given {
	char *text;
	unsigned line;
};

struct api_kubeconfig {
	struct api_given server;
	/* File names are as written: relative ones are relative to the
	 * kubeconfig's folder. Data is base64. */
	struct api_given ca_file, ca_data;
	struct api_given certificate_file, certificate_data;
	struct api_given key_file, key_data;
	struct api_given token, token_file;
};

/* On failure the sentence names the line. */
must_check int api_kubeconfig_read(const char *text, size_t size, struct api_kubeconfig *ret_config,
				   struct fault *why);
void api_kubeconfig_done(struct api_kubeconfig *config);

/* Decodes into newly allocated memory, with a NUL at the end. White space is ignored. -EBADMSG. */
must_check int api_base64_read(const char *text, char **ret_bytes, size_t *ret_size);
