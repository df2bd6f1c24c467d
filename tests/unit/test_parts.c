/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates and looks, one after the other: who is idle, who waits for whom, and what is left of an
 * earlier meted. The kubelet, the clock and the thread are this file. */
#include "kube/proto/deviceplugin.pb-c.h"
#include "plugin/kubelet/allocated.h"
#include "plugin/nvidia/parts_inside.h"
#include "tests/test.h"
#include "tests/unit/mig_driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ID MIG_DRIVER_ID
#define S  1000000000ull

struct grpc_call {
	void *kept;
	bool ended;
	enum grpc_status status;
	char said[512]; /* the sentence of a refusal, or the first id that was answered */
};

static struct {
	uint64_t now_ns;
	struct loop_work *work; /* that has begun; NULL: none */
	/* The kubelet's record. */
	const char *given;
	int unread; /* -errno */
	bool pods_known;
	const char *claimed; /* a device that a prepared claim has; NULL: none */
	uint32_t looks;	     /* at the driver's devices, that were asked for */
	const char *unnamed; /* why names for profiles are not followed; "": they are */
} others;

/* ---- what parts.c asks others for ----------------------------------------------------------- */

uint64_t loop_now_ns(void)
{
	return others.now_ns;
}

int loop_work(struct loop *loop, struct loop_work *work, void (*run)(struct loop_work *work),
	      void (*finished)(struct loop_work *work))
{
	(void)loop;
	expect(!others.work);
	work->work = run;
	work->finished = finished;
	work->busy = 1;
	others.work = work;
	return 0;
}

int allocated_known(const struct plugin *p, allocated_found *found, void *owner)
{
	(void)p;
	if (others.unread)
		return others.unread;
	if (others.given)
		found(owner, NULL, "uid", others.given);
	return 0;
}

static void each_claimed(const struct plugin *p, void (*each)(void *owner, const char *device),
			 void *owner)
{
	(void)p;
	if (others.claimed)
		each(owner, others.claimed);
}

bool pods_known(const struct pods *pods)
{
	(void)pods;
	return others.pods_known;
}

void grpc_call_keep(struct grpc_call *call, void *mine)
{
	expect(!call->ended);
	call->kept = mine;
}

void *grpc_call_kept(const struct grpc_call *call)
{
	expect(!call->ended);
	return call->kept;
}

void grpc_end(struct grpc_call *call, enum grpc_status status, const char *message)
{
	expect(!call->ended);
	call->ended = true;
	call->status = status;
	snprintf(call->said, sizeof(call->said), "%s", message);
}

void as_nvidia_allocate(struct serving *s, struct grpc_call *call,
			const V1beta1__ContainerAllocateRequest *said)
{
	(void)s;
	grpc_end(call, GRPC_OK, said->devices_ids[0]);
}

static void look(struct daemon *d)
{
	(void)d;
	others.looks++;
}

void serve_changed(struct plugin *p)
{
	(void)p;
}

bool kinds_differ(const struct plugin *p)
{
	(void)p;
	return *others.unnamed;
}

int active_config_divided(struct plugin *p, uint32_t former, struct fault *why)
{
	(void)p;
	(void)former;
	return *others.unnamed ? fault_set(why, -EINVAL, "%s", others.unnamed) : 0;
}

void offered_find(struct plugin *p)
{
	(void)p;
}

/* -------------------------------------------------------------------------------------------- */

static char place[64]; /* "" between two tests */
static struct config config;
static struct host_device device[MIG_DRIVER_PLACES];
static struct host host;
static struct plugin plugin;
static struct serving serving = {.plugin = &plugin, .resource = "nvidia.com/mig-1g.10gb"};
static struct parts *parts;

static const char *record(void)
{
	static char path[sizeof(place) + 8];

	snprintf(path, sizeof(path), "%s/parts", place);
	return path;
}

static void set_strategy(enum config_mig mig)
{
	config.as_nvidia.mig = mig;
}

/* meted starts, and finds that on its record. */
static void begin(enum config_mig mig, const char *recorded)
{
	struct fault why;

	if (!*place) {
		snprintf(place, sizeof(place), "/tmp/mete-parts-XXXXXX");
		expect(mkdtemp(place) != NULL);
	}
	memset(&others, 0, sizeof(others));
	others.unnamed = "";
	others.now_ns = 1000 * S;
	mig_driver_begin();
	memset(&config, 0, sizeof(config));
	set_strategy(mig);
	memset(device, 0, sizeof(device));
	host = (struct host){.device = device, .look = look, .place = place};
	plugin = (struct plugin){.host = &host, .config = &config, .settled = true};
	unlink(record()); /* of a test that failed */
	if (recorded) {
		FILE *out = fopen(record(), "w");

		expect(out && fputs(recorded, out) >= 0 && fclose(out) == 0);
	}
	expect_eq(parts_open(&plugin, each_claimed, &parts, &why), 0);
}

static void end(void)
{
	parts_close(parts);
	unlink(record());
	rmdir(place);
	place[0] = '\0';
}

/* The thread comes to its end; it may be used again at once. */
static void finish(void)
{
	struct loop_work *work = others.work;

	expect(work);
	others.work = NULL;
	work->work(work);
	work->busy = 0;
	work->finished(work);
}

/* meted has read the driver's devices anew. */
static void divided(void)
{
	static char uuid[MIG_DRIVER_PLACES][MIG_UUID_MAX];

	host.devices = 0;
	for (uint32_t i = 0; i < mig_driver.gpu.parts; i++) {
		snprintf(uuid[i], MIG_UUID_MAX, "%s", mig_driver.gpu.part[i].uuid[0]);
		device[host.devices++].uuid = uuid[i];
	}
	parts_divided(parts);
}

static void do_look(void)
{
	parts_look(parts);
	while (others.work)
		finish();
}

static void await(struct grpc_call *call, const char *id)
{
	char *ids[] = {(char *)id};
	V1beta1__ContainerAllocateRequest said = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;

	memset(call, 0, sizeof(*call));
	said.devices_ids = ids;
	said.n_devices_ids = 1;
	expect(parts_await(parts, &serving, call, &said));
}

/* Allocate, until it is answered. */
static void give(const char *id)
{
	struct grpc_call call;

	await(&call, id);
	finish();
	divided();
	expect(call.ended && call.status == GRPC_OK);
	expect_str(call.said, id);
}

/* And the first look. */
static void start(void)
{
	struct fault why;

	expect_eq(parts_begin(parts, &why), 0);
	do_look();
}

static uint32_t there(void)
{
	return mig_driver.gpu.parts;
}

TEST(what_a_container_was_given_before_its_last_allocate_is_not_idle)
{
	begin(CONFIG_MIG_DYNAMIC, NULL);
	start();
	give(ID "0");
	others.now_ns += 8 * S;
	give(ID "1");
	others.now_ns += 4 * S; /* the kubelet has not written down what the container has */
	do_look();
	expect_eq(there(), 2);
	others.now_ns += 8 * S;
	do_look();
	expect_eq(there(), 0);
	end();
}

TEST(what_the_record_names_stays_and_goes_with_its_line)
{
	begin(CONFIG_MIG_DYNAMIC, NULL);
	start();
	give(ID "2");
	others.given = ID "2";
	do_look();
	others.now_ns += 100 * S;
	do_look();
	expect_eq(there(), 1);
	others.given = NULL;
	do_look();
	expect_eq(there(), 0);
	end();
}

TEST(nothing_is_removed_while_the_record_cannot_be_read)
{
	begin(CONFIG_MIG_DYNAMIC, NULL);
	start();
	give(ID "2");
	others.now_ns += 100 * S;
	others.unread = -EINVAL;
	do_look();
	expect_eq(there(), 1);
	others.unread = 0;
	do_look();
	expect_eq(there(), 0);
	end();
}

/* With the key `mete`, and claims. */
static void begin_claims(void)
{
	begin(CONFIG_MIG_NONE, NULL);
	config.has_mete = config.dra = config.makes_parts = true;
	others.unread = -ENOENT; /* nobody has a slot */
	start();
}

struct claimed {
	struct parts_ask ask;
	uint32_t done;
	char problem[200];
};

static void on_done(struct parts_ask *ask, const char *problem)
{
	struct claimed *c = container_of(ask, struct claimed, ask);

	c->done++;
	snprintf(c->problem, sizeof(c->problem), "%s", problem ? problem : "");
}

static void want(struct claimed *c, const char *id)
{
	*c = (struct claimed){.ask = {.count = 1, .done = on_done}};
	snprintf(c->ask.id[0], sizeof(c->ask.id[0]), "%s", id);
	parts_want(parts, &c->ask);
}

TEST(what_a_claim_has_stays_until_the_claim_is_gone)
{
	struct claimed claim;

	begin_claims();
	want(&claim, ID "2");
	finish();
	expect_eq(claim.done, 0); /* it is no device of meted yet */
	divided();
	expect(claim.done == 1 && !*claim.problem);
	others.claimed = "gpu-1-1g-10gb-2";
	others.now_ns += 100 * S;
	do_look();
	expect_eq(there(), 1);
	expect_str(parts_place_of(parts, 0), ID "2");
	others.claimed = NULL;
	do_look();
	expect_eq(there(), 0);
	end();
}

TEST(a_claim_that_is_gone_at_once_leaves_its_part_to_the_next_look)
{
	struct claimed claim;

	begin_claims();
	want(&claim, ID "2");
	finish();
	divided();
	expect_eq(there(), 1);
	do_look(); /* no time has passed: the kubelet writes nothing of claims */
	expect_eq(there(), 0);
	end();
}

TEST(a_record_of_the_kubelet_that_is_there_and_cannot_be_read_keeps_all_parts)
{
	struct claimed claim;

	begin_claims();
	want(&claim, ID "2");
	finish();
	divided();
	others.unread = -EINVAL;
	others.now_ns += 100 * S;
	do_look();
	expect_eq(there(), 1);
	end();
}

TEST(a_claim_that_is_not_wanted_any_more_leaves_nothing)
{
	struct claimed first, second;

	begin_claims();
	want(&first, ID "0");
	want(&second, ID "1");
	parts_unwant(&first.ask);
	parts_unwant(&first.ask);
	finish();
	finish();
	divided();
	expect(first.done == 0 && second.done == 1 && !*second.problem);
	others.claimed = "gpu-1-1g-10gb-1";
	do_look();
	expect_eq(there(), 1);
	end();
}

TEST(a_part_that_is_not_made_is_said_to_the_claim)
{
	struct claimed claim;

	begin_claims();
	mig_driver.broken = 4;
	want(&claim, ID "4");
	finish();
	expect(claim.done == 1 && strstr(claim.problem, "no compute instance"));
	end();
}

TEST(who_waits_for_a_part_is_told_that_meted_ends)
{
	struct claimed claim;

	begin_claims();
	want(&claim, ID "4");
	parts_close(parts);
	expect(claim.done == 1 && strstr(claim.problem, "stopping"));
	finish();
	parts = NULL;
	end();
}

static void list_place(void *owner, const struct parts_place *at)
{
	char *said = owner;

	snprintf(said + strlen(said), 64, "%s%u%s", *said ? " " : "", at->at.start,
		 at->device >= 0 ? "!" : "");
}

static const char *published(void)
{
	static char said[256];

	*said = '\0';
	parts_each_place(parts, list_place, said);
	return said;
}

TEST(places_are_published_where_nothing_of_others_lies)
{
	struct claimed claim;

	begin_claims();
	expect_str(published(), "0 1 2 3 4 5 6");
	/* A part of ours changes nothing, whoever has it. */
	want(&claim, ID "2");
	finish();
	divided();
	others.claimed = "gpu-1-1g-10gb-2";
	expect_str(published(), "0 1 2! 3 4 5 6");
	/* One that somebody else makes does. */
	expect_eq(mig_make(&mig_driver, &mig_driver.gpu, 0, 5, NULL), 0);
	do_look();
	divided();
	expect_str(published(), "0 1 2! 3 4 6");
	end();
}

TEST(nothing_is_made_again_before_it_is_known_which_pods_have_ended)
{
	begin(CONFIG_MIG_DYNAMIC, NULL);
	plugin.api = (struct api *)&host;
	plugin.pods = (struct pods *)&host;
	others.given = ID "3";
	start();
	expect_eq(there(), 0);
	others.pods_known = true;
	do_look();
	expect_eq(there(), 1);
	end();
}

TEST(a_caller_that_leaves_makes_way_at_once)
{
	struct grpc_call first, second;

	begin(CONFIG_MIG_DYNAMIC, NULL);
	start();
	await(&first, ID "0");
	await(&second, ID "1");
	finish(); /* it is made, and is no device of meted yet */
	expect(!first.ended && !others.work && others.looks);
	parts_call_gone(&first);
	expect(others.work); /* without a look, or a device that comes */
	finish();
	divided();
	expect(second.ended && second.status == GRPC_OK);
	end();
}

TEST(a_caller_may_leave_while_its_part_is_made)
{
	struct grpc_call first, second;

	begin(CONFIG_MIG_DYNAMIC, NULL);
	start();
	await(&first, ID "0");
	await(&second, ID "1");
	parts_call_gone(&first);
	finish();
	expect(others.work && !second.ended);
	finish();
	divided();
	expect(second.ended && second.status == GRPC_OK);
	/* Nobody has the first: it goes. */
	do_look();
	expect_eq(there(), 1);
	end();
}

/* grpc_call_keep() above sees it. */
TEST(a_call_that_has_ended_is_not_used_again)
{
	struct grpc_call refused, waits;

	begin(CONFIG_MIG_DYNAMIC, NULL);
	start();
	mig_driver.broken = 4;
	await(&refused, ID "4");
	finish();
	expect(refused.ended && strstr(refused.said, "no compute instance"));
	await(&waits, ID "1");
	finish();
	parts_abandon(parts, &serving);
	expect(waits.ended && waits.status == GRPC_UNAVAILABLE);
	end();
}

TEST(an_allocate_of_a_part_that_the_driver_never_lists_is_refused)
{
	struct grpc_call call;

	begin(CONFIG_MIG_DYNAMIC, NULL);
	start();
	await(&call, ID "0");
	finish();
	while (!call.ended) {
		expect(others.looks < 10);
		parts_divided(parts);
	}
	expect(call.status != GRPC_OK && strstr(call.said, "the driver does not list it"));
	end();
}

TEST(what_the_thread_does_may_end_after_all_else)
{
	struct grpc_call call;

	begin(CONFIG_MIG_DYNAMIC, NULL);
	start();
	await(&call, ID "0");
	parts_close(parts);
	expect(call.ended && call.status == GRPC_UNAVAILABLE);
	finish(); /* and frees it */
	expect_eq(there(), 1);
	parts = NULL;
	end();
}

TEST(parts_that_are_left_over_keep_no_other_strategy_from_beginning)
{
	begin(CONFIG_MIG_MIXED, ID "0\n");
	expect_eq(mig_make(&mig_driver, &mig_driver.gpu, 0, 0, NULL), 0);
	mig_driver.silent = true;
	start();
	expect_eq(there(), 1);
	mig_driver.silent = false;
	do_look();
	expect_eq(there(), 0);
	expect(!parts_asks_for_pods(parts));
	/* It has nothing to do any more. */
	parts_look(parts);
	expect(!others.work);
	end();
}

TEST(the_strategy_itself_does_not_begin_without_the_driver)
{
	struct fault why;

	begin(CONFIG_MIG_DYNAMIC, NULL);
	mig_driver.silent = true;
	expect(parts_begin(parts, &why) < 0);
	expect_str(why.text, "migStrategy: dynamic: NVML does not answer");
	mig_driver.silent = false;
	start();
	end();
}

TEST(who_has_ended_is_asked_only_where_parts_are_made_or_left_over)
{
	begin(CONFIG_MIG_MIXED, NULL);
	expect(!parts_asks_for_pods(parts));
	set_strategy(CONFIG_MIG_DYNAMIC);
	expect(parts_asks_for_pods(parts));
	config.has_mete = true;
	expect(!parts_asks_for_pods(parts));
	end();
	begin(CONFIG_MIG_MIXED, ID "0\n");
	expect(parts_asks_for_pods(parts));
	end();
}

TEST(with_a_label_that_divides_all_parts_are_the_labels)
{
	begin(CONFIG_MIG_MIXED, ID "0\n");
	expect_eq(mig_make(&mig_driver, &mig_driver.gpu, 0, 0, NULL), 0);
	host.mig_config = "/etc/mig.yaml";
	start();
	expect(access(record(), F_OK) != 0);
	expect(there() == 1 && !parts_asks_for_pods(parts));
	end();
}

/* How often that is on standard error since it began to be `file`. */
static unsigned logged(int file, const char *words)
{
	char text[8192];
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);
	unsigned times = 0;

	expect(n >= 0 && n < (ssize_t)sizeof(text) - 1);
	text[n] = '\0';
	for (const char *at = text; (at = strstr(at, words)); at += strlen(words))
		times++;
	return times;
}

TEST(why_names_are_not_followed_is_logged_once_for_each_reason)
{
	int file = memfd_create("log", 0), usual = dup(STDERR_FILENO);

	begin(CONFIG_MIG_DYNAMIC, NULL);
	start();
	expect(file >= 0 && usual >= 0);
	dup2(file, STDERR_FILENO);
	others.unnamed = "one";
	for (unsigned i = 0; i < 3; i++)
		do_look();
	others.unnamed = "another";
	do_look();
	others.unnamed = "";
	do_look();
	others.unnamed = "another";
	for (unsigned i = 0; i < 2; i++)
		do_look();
	dup2(usual, STDERR_FILENO);
	close(usual);
	expect_eq(logged(file, "parts.unnamed reason=\"one\""), 1);
	expect_eq(logged(file, "parts.unnamed reason=\"another\""), 2);
	close(file);
	end();
}
