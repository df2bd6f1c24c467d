/* SPDX-License-Identifier: Apache-2.0 */
/* What has happened outlives meted: in its order, bounded, and whatever the file has become. */
#include "node/state/events_file.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/journal.h"
#include "node/devices/nvml.h"
#include "node/events.h"
#include "tests/test.h"

static struct nvml_device info[2] = {{.uuid_text = "GPU-one"}, {.uuid_text = "GPU-two"}};
static struct daemon *d;
static struct tenant *mine;
static char path[PLACE_MAX + 16];

static void start(const char *place, uint32_t first)
{
	d = calloc(1, sizeof(*d));
	mine = calloc(1, sizeof(*mine) + sizeof(mine->device[0]));
	expect(d && mine);
	strcpy(d->place, place);
	d->devices = 2;
	d->device[first].info = &info[0];
	d->device[!first].info = &info[1];
	mine->daemon = d;
	mine->id = 4;
	mine->owner = 1000;
	mine->name = "mine, and %yours";
	mine->device[0].tenant = mine;
	mine->device[0].index = first;
	events_file_open(d);
}

static void stop(void)
{
	events_file_close(d);
	events_free(d);
	free(mine);
	free(d);
}

static void restart(uint32_t first)
{
	char place[PLACE_MAX];

	strcpy(place, d->place);
	stop();
	start(place, first);
}

static void given_a_folder(void)
{
	char place[] = "/tmp/mete-events-XXXXXX";

	expect(mkdtemp(place) != NULL);
	snprintf(path, sizeof(path), "%s/events", place);
	start(place, 0);
}

static void gone(void)
{
	char place[PLACE_MAX];

	strcpy(place, d->place);
	stop();
	unlink(path);
	expect_eq(rmdir(place), 0); /* nothing else was left there */
}

static uint32_t count(void)
{
	return d->events.count;
}

static off_t size(void)
{
	struct stat is;

	expect_eq(stat(path, &is), 0);
	return is.st_size;
}

/* As a meted that is killed leaves it: nothing is written at its end. */
TEST(events_outlive_meted_and_their_numbers_go_on)
{
	const struct event *event;

	given_a_folder();
	events_at(&mine->device[0], HAPPENED_REFUSED, "the limit of %s = 50 %% is reached", "4GiB");
	events_meted(d, HAPPENED_BEGAN, "meted began");
	restart(1);
	expect_eq(count(), 2);
	event = events_after(d, 0);
	expect_eq(event->number, 1);
	expect_eq(event->kind, HAPPENED_REFUSED);
	expect_eq(event->tenant, 4);
	expect_eq(event->owner, 1000);
	expect_str(event->name, "mine, and %yours");
	expect_str(event->said, "the limit of 4GiB = 50 % is reached");
	expect_eq(event->device, 1); /* the GPU that it was */
	expect(event->at_ns > 0);
	expect_eq(events_after(d, 1)->device, EVENTS_NONE);
	expect_eq(events_after(d, 1)->owner, EVENTS_NONE);
	events_meted(d, HAPPENED_BEGAN, "meted began");
	expect_eq(events_after(d, 2)->number, 3);
	gone();
}

/* A number names one tenant, also where the journal has been removed as nobody was left. */
TEST(a_tenants_number_is_not_given_to_another_one)
{
	given_a_folder();
	events_tenant(mine, HAPPENED_LEFT, "left");
	restart(0);
	expect_eq(d->tenants.last_id, 4);
	gone();
}

TEST(a_device_that_is_missing_now_is_none)
{
	given_a_folder();
	events_device(d, 1, HAPPENED_CORDONED, "it takes no new tenants");
	info[1].uuid_text[0] = 'X';
	restart(0);
	info[1].uuid_text[0] = 'G';
	expect_eq(count(), 1);
	expect_eq(events_after(d, 0)->device, EVENTS_NONE);
	gone();
}

TEST(a_tenant_that_made_many_events_pushes_out_its_own_after_a_restart_too)
{
	given_a_folder();
	events_meted(d, HAPPENED_BEGAN, "meted began");
	for (uint32_t i = 0; i < EVENTS_MOST / 2; i++)
		events_tenant(mine, HAPPENED_SET, "%u", i);
	restart(0);
	for (uint32_t i = 0; i < EVENTS_MOST; i++)
		events_tenant(mine, HAPPENED_SET, "%u", i);
	expect_eq(count(), EVENTS_MOST);
	expect_eq(events_after(d, 0)->number, 1);
	gone();
}

TEST(the_file_is_bounded_and_only_meted_reads_it)
{
	struct stat is;
	off_t most;

	given_a_folder();
	for (uint32_t i = 0; i < EVENTS_MOST; i++)
		events_tenant(mine, HAPPENED_SET, "%08u", i);
	most = 2 * size() + 2 * EVENTS_MOST * 8; /* as numbers grow */
	for (uint32_t i = 0; i < 5 * EVENTS_MOST; i++) {
		events_tenant(mine, HAPPENED_SET, "%08u", i);
		expect(size() <= most);
	}
	expect_eq(stat(path, &is), 0);
	expect_eq(is.st_mode & 0777, 0600);
	restart(0);
	expect_eq(count(), EVENTS_MOST);
	expect_eq(events_after(d, 0)->number, 5 * EVENTS_MOST + 1);
	gone();
}

/* Nothing more can be written to any file, or again. */
static void no_room(bool is_so)
{
	struct rlimit most;

	signal(SIGXFSZ, SIG_IGN);
	expect_eq(getrlimit(RLIMIT_FSIZE, &most), 0);
	most.rlim_cur = is_so ? 0 : most.rlim_max;
	expect_eq(setrlimit(RLIMIT_FSIZE, &most), 0);
}

TEST(a_disk_that_stays_full_is_not_tried_for_each_event)
{
	static const struct timespec long_ago[2] = {{1, 0}, {1, 0}};
	struct stat folder;

	given_a_folder();
	no_room(true);
	events_meted(d, HAPPENED_BEGAN, "meted began");
	/* To write the file anew is to make another one beside it. */
	expect_eq(utimensat(AT_FDCWD, d->place, long_ago, 0), 0);
	for (int i = 0; i < 20; i++)
		events_meted(d, HAPPENED_BEGAN, "meted began");
	expect_eq(stat(d->place, &folder), 0);
	no_room(false);
	expect_eq(folder.st_mtim.tv_sec, 1);
	/* meted's end is tried in any case. */
	restart(0);
	expect_eq(count(), 21);
	gone();
}

TEST(events_that_are_cut_or_changed_in_the_file_are_ignored)
{
	char *text = NULL;
	size_t bytes = 0;

	given_a_folder();
	events_meted(d, HAPPENED_BEGAN, "first");
	events_meted(d, HAPPENED_BEGAN, "second");
	expect_eq(file_slurp(path, 1 << 20, &text, &bytes), 0);
	for (size_t cut = 0; cut < bytes; cut++) {
		expect_eq(file_replace_unsynced(path, text, cut, 0600), 0);
		restart(0);
		expect(count() <= 1);
	}
	for (size_t i = 0; i < bytes; i++) {
		text[i] ^= 0x11;
		expect_eq(file_replace_unsynced(path, text, bytes, 0600), 0);
		restart(0);
		expect(count() <= 1);
		text[i] ^= 0x11;
	}
	/* It goes on behind what was whole. */
	events_meted(d, HAPPENED_BEGAN, "third");
	restart(0);
	expect_eq(d->events.event[count() - 1]->number, d->events.last);
	expect_str(d->events.event[count() - 1]->said, "third");
	free(text);
	gone();
}

static void ignore(void *context, const char *record)
{
	(void)context;
	(void)record;
}

TEST(an_event_whose_number_cannot_be_is_left_out)
{
	struct journal journal;
	struct fault why;

	given_a_folder();
	events_meted(d, HAPPENED_BEGAN, "first");
	expect_eq(journal_open(&journal, path, ignore, NULL, &why), 0);
	expect_eq(journal_append(&journal, "event number=18446744073709551615 name= said=last"), 0);
	journal_close(&journal);
	restart(0);
	expect_eq(count(), 1);
	events_meted(d, HAPPENED_BEGAN, "second");
	expect_eq(d->events.last, 2);
	expect_str(events_after(d, 1)->said, "second");
	gone();
}

TEST(without_a_file_events_end_with_meted)
{
	given_a_folder();
	expect_eq(unlink(path), 0);
	expect_eq(mkdir(path, 0700), 0);
	restart(0);
	events_meted(d, HAPPENED_BEGAN, "meted began");
	expect_eq(count(), 1);
	expect_eq(rmdir(path), 0);
	events_meted(d, HAPPENED_BEGAN, "again"); /* there is room again: with what was lost */
	restart(0);
	expect_eq(count(), 2);
	gone();
}
