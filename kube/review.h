/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the API server: which user a token belongs to, and which objects a user may get. The
 * bodies of TokenReview (authentication.k8s.io/v1) and SubjectAccessReview
 * (authorization.k8s.io/v1), and the reading of their answers. Pure.
 * https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/
 * https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/subject-access-review-v1/
 */
#pragma once

#include <cjson/cJSON.h>

#include "base/macros.h"
#include "kube/right.h"

#define REVIEW_TOKENS "/apis/authentication.k8s.io/v1/tokenreviews"
#define REVIEW_RIGHTS "/apis/authorization.k8s.io/v1/subjectaccessreviews"

/* Malloc'ed; NULL without memory. `audience`: whom the token must be for; NULL: the API server. */
char *review_ask_token(const char *token, const char *audience);
/* 0: `ret_user` (for review_ask_right()) and his name, both malloc'ed. RIGHT_NO: nobody's token,
 * or it is for somebody else. -EBADMSG, -ENOMEM. */
must_check int review_read_token(const cJSON *answer, const char *audience, char **ret_user,
				 char **ret_name);

/* May `user` get it? NULL: without memory, or `user` is nothing that review_read_token() gave. */
char *review_ask_right(const char *user, const struct right *right);
/* 0: yes. RIGHT_NO, -EBADMSG. */
must_check int review_read_right(const cJSON *answer);
