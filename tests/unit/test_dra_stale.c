/* SPDX-License-Identifier: Apache-2.0 */
/* Which answers of the API server undo a prepared claim. The API server, the journal's files and
 * the undoing are this file. */
#include "kube/api.h"
#include "kube/json.h"
#include "plugin/dra/inside.h"
#include "plugin/pods.h"
#include "tests/test.h"

#define UID "11111111-2222-3333-4444-555555555555"

static struct {
	void (*answered)(void *owner, int status, const char *problem, const cJSON *object);
	void *owner;
	char path[200];
	uint32_t undone;
} others;

int api_ask(struct api *api, const struct api_request *request,
	    void (*answered)(void *owner, int status, const char *problem, const cJSON *object),
	    void *owner, struct api_asked **ret_asked)
{
	(void)api;
	snprintf(others.path, sizeof(others.path), "%s", request->path);
	others.answered = answered;
	others.owner = owner;
	*ret_asked = (struct api_asked *)&others;
	return 0;
}

void api_forget(struct api_asked *asked)
{
	(void)asked;
}

int prepare_undo(struct dra *dra, struct journal_claim *entry, struct fault *why)
{
	(void)why;
	others.undone++;
	list_remove(&entry->link);
	dra->journal.count--;
	return 0;
}

void serve_changed(struct plugin *p)
{
	(void)p;
}

bool pods_known(const struct pods *pods)
{
	(void)pods;
	return false;
}

void pods_each(const struct pods *pods, void (*seen)(void *owner, const struct pod *pod),
	       void *owner)
{
	(void)pods;
	(void)seen;
	(void)owner;
}

bool pods_uses_claim(const struct pod *pod, const char *namespace, const char *claim)
{
	(void)pod;
	(void)namespace;
	(void)claim;
	return false;
}

/* Is the prepared claim ns/c undone after that answer? NULL: the body is no JSON. `tenant`: its own
 * when the answer comes. */
static bool undoes_as(uint32_t tenant, int status, const char *body)
{
	static struct claim claim = {.uid = UID,
				     .namespace = (char *)"ns",
				     .name = (char *)"c",
				     .results = 1,
				     .result = {{.pool = (char *)"n-mete",
						 .device = (char *)"gpu-a",
						 .share_id = (char *)"s"}}};
	struct journal_claim entry = {.phase = JOURNAL_DONE, .claim = &claim, .tenant = 7};
	struct plugin plugin = {.api = (struct api *)&others};
	struct dra dra = {.plugin = &plugin};
	owned(cJSON_Delete) cJSON *object = body ? cJSON_Parse(body) : NULL;
	uint32_t before = others.undone;

	expect(!body || object);
	list_init(&dra.journal.all);
	journal_add(&dra.journal, &entry);
	stale_look(&dra);
	expect_eq(strcmp(others.path, "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"),
		  0);
	entry.tenant = tenant;
	others.answered(others.owner, status, status / 100 == 2 ? NULL : "refused", object);
	return others.undone != before;
}

static bool undoes(int status, const char *body)
{
	return undoes_as(7, status, body);
}

#define GONE(kind, name)                                                                           \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"NotFound\",\"code\":404,"        \
	"\"details\":{\"name\":\"" name "\",\"group\":\"resource.k8s.io\",\"kind\":\"" kind "\"}}"
#define CLAIM(uid, status)                                                                         \
	"{\"kind\":\"ResourceClaim\",\"metadata\":{\"name\":\"c\",\"uid\":\"" uid                  \
	"\"},\"status\":" status "}"

#define ON(pool, share)                                                                            \
	"{\"allocation\":{\"devices\":{\"results\":[{\"pool\":\"" pool                             \
	"\",\"device\":\"gpu-a\",\"shareID\":\"" share "\"}]}}}"

TEST(a_claim_that_the_server_says_is_not_there_is_undone)
{
	expect(undoes(404, GONE("resourceclaims", "c")));
}

TEST(a_server_that_does_not_serve_claims_undoes_none)
{
	/* A group that is not there: text. A resource that its group has not: a Status without a
	 * name. */
	expect(!undoes(404, NULL));
	expect(!undoes(404, "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"details\":{},"
			    "\"code\":404}"));
	expect(!undoes(404, "{\"kind\":\"Status\",\"code\":404}"));
	expect(!undoes(404, GONE("namespaces", "ns")));
	expect(!undoes(404, GONE("resourceclaims", "other")));
	expect(!undoes(403, GONE("resourceclaims", "c")));
	expect(!undoes(0, NULL));
}

TEST(a_claim_that_is_another_one_or_has_no_devices_is_undone)
{
	expect(!undoes(200, CLAIM(UID, ON("n-mete", "s"))));
	expect(undoes(200, CLAIM("another", ON("n-mete", "s"))));
	expect(undoes(200, CLAIM(UID, "{}")));
}

/* The answer is late, and is about what the claim had before. */
TEST(a_claim_that_was_prepared_again_meanwhile_is_not_undone)
{
	expect(!undoes_as(8, 200, CLAIM(UID, "{}")));
	expect(!undoes_as(8, 200, CLAIM(UID, ON("n-mete", "t"))));
	expect(undoes_as(7, 200, CLAIM(UID, "{}")));
}

/* Its pod was deleted by force while this node was away, and another pod of it has begun. */
TEST(a_claim_that_has_been_allocated_again_is_undone)
{
	expect(undoes(200, CLAIM(UID, ON("other-mete", "s"))));
	expect(undoes(200, CLAIM(UID, ON("n-mete", "t"))));
	expect(undoes(200, CLAIM(UID, "{\"allocation\":{}}")));
}

TEST(an_answer_that_is_no_claim_undoes_none)
{
	expect(!undoes(200, NULL));
	expect(!undoes(200, "{\"kind\":\"Status\"}"));
}
