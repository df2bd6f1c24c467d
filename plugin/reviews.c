/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/reviews.h"

#include "kube/review.h"

/* A viewer waits for the answer no longer than this. */
enum { WITHIN_S = 5, ANSWER_MOST = 256 << 10 };

struct right_asked {
	struct api_asked *asked;
	char *audience;
	right_told *told;
	void *owner;
};

static void done(struct right_asked *review)
{
	if (!review)
		return;
	free(review->audience);
	free(review);
}

static void fail(struct right_asked *review, const char *what, const char *problem)
{
	log_warning("review.failed", "review=%s reason=%s", what, log_text(problem).text);
	review->told(review->owner, -EIO, NULL, NULL);
	done(review);
}

static void on_who(void *owner, int status, const char *problem, const cJSON *answer)
{
	struct right_asked *review = owner;
	owned(free) char *user = NULL, *name = NULL;
	int r;

	(void)status;
	r = problem ? -EIO : review_read_token(answer, review->audience, &user, &name);
	if (r < 0) {
		fail(review, "token", problem ? problem : "the answer is no TokenReview");
		return;
	}
	review->told(review->owner, r ? RIGHT_NO : 0, user, name);
	done(review);
}

static void on_may(void *owner, int status, const char *problem, const cJSON *answer)
{
	struct right_asked *review = owner;
	int r = problem ? -EIO : review_read_right(answer);

	(void)status;
	if (r < 0) {
		fail(review, "right", problem ? problem : "the answer is no SubjectAccessReview");
		return;
	}
	review->told(review->owner, r ? RIGHT_NO : 0, NULL, NULL);
	done(review);
}

/* Takes over `review`, and `body`: NULL is lacking memory, as it is of the other. */
static int ask(struct plugin *p, const char *path, char *body, struct right_asked *review,
	       void (*answered)(void *owner, int status, const char *problem, const cJSON *answer),
	       struct right_asked **ret_asked)
{
	const struct api_request request = {.verb = "POST",
					    .path = path,
					    .body = body,
					    .within_ns = WITHIN_S * 1000000000ull,
					    .most_bytes = ANSWER_MOST,
					    .exact = true};
	int r = !p->api ? -ENOTCONN : !body || !review ? -ENOMEM : 0;

	if (r == 0)
		r = api_ask(p->api, &request, answered, review, &review->asked);
	free(body);
	if (r < 0)
		done(review);
	else
		*ret_asked = review;
	return r;
}

static struct right_asked *make(const char *audience, right_told *told, void *owner)
{
	struct right_asked *review = calloc(1, sizeof(*review));

	if (!review)
		return NULL;
	review->told = told;
	review->owner = owner;
	review->audience = audience ? strdup(audience) : NULL;
	if (!audience || review->audience)
		return review;
	free(review);
	return NULL;
}

int reviews_who(struct plugin *p, const char *token, const char *audience, right_told *told,
		void *owner, struct right_asked **ret_asked)
{
	return ask(p, REVIEW_TOKENS, review_ask_token(token, audience), make(audience, told, owner),
		   on_who, ret_asked);
}

int reviews_may(struct plugin *p, const char *user, const struct right *right, right_told *told,
		void *owner, struct right_asked **ret_asked)
{
	struct right wanted = *right;

	if (right->of_node)
		wanted.name = p->node;
	return ask(p, REVIEW_RIGHTS, review_ask_right(user, &wanted), make(NULL, told, owner),
		   on_may, ret_asked);
}

void reviews_forget(struct right_asked *review)
{
	if (review)
		api_forget(review->asked);
	done(review);
}
