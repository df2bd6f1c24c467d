/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/journal.h"
#include "plugin/dra/pcie.h"
#include "plugin/config/portion.h"
#include "base/file.h"
#include "base/records.h"
#include "tests/folder.h"
#include "tests/test.h"

#define UID  "11111111-2222-3333-4444-555555555555"
#define UUID "GPU-00000000-0000-0000-0000-00000000000A"
#define NAME "gpu-00000000-0000-0000-0000-00000000000a"

static const struct host_device devices[] = {{.uuid = "GPU-other"}, {.uuid = UUID}};
static const struct host host = {.devices = 2, .device = devices};

static struct journal_claim *made(void)
{
	struct claim *claim = calloc(1, sizeof(*claim));
	struct journal_claim *entry;

	expect(claim);
	snprintf(claim->uid, sizeof(claim->uid), "%s", UID);
	claim->namespace = strdup("ns");
	claim->name = strdup("quarter");
	claim->texts[PORTION_memory] = strdup("4294967296B");
	claim->texts[PORTION_class] = strdup("batch");
	claim->results = 1;
	claim->result[0] = (struct claim_result){.request = strdup("gpu"),
						 .pool = strdup("n-mete"),
						 .device = strdup(NAME),
						 .share_id = strdup("s"),
						 .index = 1};
	claim->devices = 1;
	claim->of[0] = 1;
	entry = journal_make(claim, "mete.dev/claim", "/var/run/cdi");
	expect(entry);
	entry->tenant = 7;
	entry->phase = JOURNAL_DONE;
	return entry;
}

static struct journal_claim *parse(const char *text, const struct host *of)
{
	struct journal_claim *entry = NULL;
	char boot[40];

	if (journal_parse(UID, text, strlen(text), of, boot, &entry) < 0)
		return NULL;
	expect_str(boot, "b");
	return entry;
}

TEST(a_record_says_all_that_undoing_needs)
{
	owned(journal_free) struct journal_claim *entry = made(), *read = NULL;
	owned(free) char *text = journal_describe(entry, "b", &host);

	read = parse(text, &host);
	expect(read);
	expect_eq(read->phase, JOURNAL_DONE);
	expect_eq(read->tenant, 7);
	expect_str(read->kind, "mete.dev/claim");
	expect_str(read->cdi_folder, "/var/run/cdi");
	expect_str(read->claim->uid, UID);
	expect_str(read->claim->namespace, "ns");
	expect_str(read->claim->name, "quarter");
	expect_str(read->claim->texts[PORTION_memory], "4294967296B");
	expect_str(read->claim->texts[PORTION_class], "batch");
	expect(!read->claim->texts[PORTION_weight]);
	expect_eq(read->claim->results, 1);
	expect_str(read->claim->result[0].request, "gpu");
	expect_str(read->claim->result[0].device, NAME);
	expect_str(read->claim->result[0].share_id, "s");
	expect_eq(read->claim->devices, 1);
	expect_eq(read->claim->of[0], 1);
	expect_eq(read->missings, 0);
}

static char seen[200];

static void on_announced(void *owner, const char *kind, const char *folder)
{
	expect(owner == seen);
	snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s in %s;", kind, folder);
}

static void reopen(struct journal *journal, const char *folder)
{
	struct fault why;

	expect_eq(journal_open(journal, folder, &host, &why), 0);
	*seen = '\0';
}

TEST(the_folder_of_files_without_a_record_is_written_once_and_known_to_the_next_meted)
{
	char folder[] = "/tmp/mete-XXXXXX", path[60];
	struct journal journal;
	struct fault why;

	expect(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/.announced", folder);
	reopen(&journal, folder);
	expect_eq(journal_announce(&journal, "mete.dev/claim", "/var/run/cdi", &why), 0);
	expect_eq(unlink(path), 0);
	expect_eq(journal_announce(&journal, "mete.dev/claim", "/var/run/cdi", &why), 0);
	expect_eq(access(path, F_OK), -1);
	expect_eq(journal_announce(&journal, "mete.dev/claim", "/var/run/c d", &why), 0);
	expect_eq(journal_announce(&journal, "e.dev/claim", "/var/run/cdi", &why), 0);
	journal_close(&journal);

	reopen(&journal, folder);
	journal_each_announced(&journal, on_announced, seen);
	expect_str(seen, "mete.dev/claim in /var/run/cdi;mete.dev/claim in /var/run/c d;"
			 "e.dev/claim in /var/run/cdi;");
	expect_eq(unlink(path), 0);
	expect_eq(journal_announce(&journal, "e.dev/claim", "/var/run/cdi", &why), 0);
	expect_eq(access(path, F_OK), -1);
	journal_close(&journal);
	expect_eq(rmdir(folder), 0);
}

TEST(devices_are_found_by_name_wherever_they_are_now)
{
	static const struct host_device turned[] = {{.uuid = UUID}};
	static const struct host one = {.devices = 1, .device = turned};
	static const struct host none = {.devices = 0};
	owned(journal_free) struct journal_claim *entry = made(), *here = NULL, *gone = NULL;
	owned(free) char *text = journal_describe(entry, "b", &host);

	here = parse(text, &one);
	expect_eq(here->claim->of[0], 0);
	expect_eq(here->missings, 0);
	gone = parse(text, &none);
	expect_eq(gone->claim->devices, 0);
	expect_eq(gone->missings, 1);
}

TEST(a_record_has_the_share_in_force_and_that_it_is_being_changed)
{
	owned(journal_free) struct journal_claim *entry = made(), *read = NULL, *old = NULL;
	owned(free) char *text = NULL, *older = NULL;
	char *at;

	entry->in_force[PORTION_memory] = strdup("1GiB");
	entry->in_force[PORTION_weight] = strdup("50");
	entry->changing = true;
	text = journal_describe(entry, "b", &host);
	read = parse(text, &host);
	expect(read && read->changing);
	expect_str(read->in_force[PORTION_memory], "1GiB");
	expect_str(read->in_force[PORTION_weight], "50");
	expect(!read->in_force[PORTION_class]);
	expect_str(read->claim->texts[PORTION_memory], "4294967296B");
	/* An older meted did not write that: its tenants had what was prepared. */
	older = strdup(text);
	for (size_t i = 0; i < 2; i++) {
		at = strstr(older, i ? "\"changing\"" : "\"in-force\"");
		expect(at);
		at[1] = 'X';
	}
	old = parse(older, &host);
	expect(old && !old->changing);
	expect_str(old->in_force[PORTION_memory], "4294967296B");
	expect_str(old->in_force[PORTION_class], "batch");
}

/* A newer meted writes more, and this one goes back in its place. */
TEST(members_that_are_not_known_do_no_harm)
{
	owned(journal_free) struct journal_claim *entry = made(), *read = NULL;
	owned(free) char *text = journal_describe(entry, "b", &host);
	owned(free) char *more = NULL;

	expect(asprintf(&more, "{\"later\":{\"uid\":[1,2]},%s", text + 1) > 0);
	read = parse(more, &host);
	expect(read);
	expect_eq(read->tenant, 7);
}

TEST(text_that_is_no_record_is_refused)
{
	owned(journal_free) struct journal_claim *entry = made();
	owned(free) char *text = journal_describe(entry, "b", &host);
	static const char *const needed[] = {"\"uid\"",	    "\"phase\"",  "\"boot\"",
					     "\"kind\"",    "\"tenant\"", "\"name\"",
					     "\"results\"", "\"request\""};

	expect(!parse("", &host) && !parse("{}", &host) && !parse("[]", &host));
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		owned(free) char *copy = strdup(text);
		char *at = strstr(copy, needed[i]);

		expect(at);
		at[1] = 'X';
		expect(!parse(copy, &host));
	}
	for (size_t i = 0; i < strlen(text); i++) {
		owned(free) char *copy = strndup(text, i);

		expect(!parse(copy, &host));
	}
}

TEST(a_pcie_root_is_the_first_of_a_devices_path)
{
	char root[PCIE_ROOT];

	pcie_root_in("../../../devices/pci0000:16/0000:16:01.0/0000:1b:00.0", root);
	expect_str(root, "pci0000:16");
	pcie_root_in("../../../devices/pci10000:e1/10000:e1:00.0", root);
	expect_str(root, "pci10000:e1");
	pcie_root_in("../../../devices/platform/soc/1b.pcie/pci0001:00/0001:00:00.0", root);
	expect_str(root, "pci0001:00");
	pcie_root_in("../../../devices/virtual/net/pcie", root);
	expect_str(root, "");
	pcie_root_in("../../../devices/pci0000:16", root);
	expect_str(root, "");
	pcie_root_in("", root);
	expect_str(root, "");
}

static char *boot_now(void)
{
	char *text = NULL;
	size_t size;

	expect_eq(file_slurp("/proc/sys/kernel/random/boot_id", 64, &text, &size), 0);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

/* What a meted finds in the folder that wrote these lines, as of that boot. */
static void found_after(const char *boot, enum journal_phase phase)
{
	owned(journal_free) struct journal_claim *entry = made();
	owned(free) char *text = journal_describe(entry, boot, &host);
	const struct journal_claim *read;
	char folder[] = "/tmp/mete-XXXXXX";
	struct journal journal;
	struct fault why;

	expect(mkdtemp(folder));
	expect_eq(records_write_unsynced(folder, UID, text, &why), 0);
	expect_eq(records_write_unsynced(folder, "no-record", "{", &why), 0);
	reopen(&journal, folder);
	expect_eq(journal.count, 1);
	read = list_entry(journal.all.next, struct journal_claim, link);
	expect_str(read->claim->uid, UID);
	expect_eq(read->phase, phase);
	expect(read->recorded);
	expect_eq(journal_drop(&journal, (struct journal_claim *)read, &why), 0);
	expect_eq(journal.count, 0);
	journal_close(&journal);
	reopen(&journal, folder);
	expect_eq(journal.count, 0);
	journal_close(&journal);
	folder_remove(folder);
}

TEST(a_claim_of_an_earlier_boot_is_to_end_and_one_of_this_boot_goes_on)
{
	owned(free) char *boot = boot_now();

	found_after(boot, JOURNAL_DONE);
	found_after("00000000-0000-0000-0000-000000000000", JOURNAL_ENDING);
}

TEST(of_claims_that_have_a_tenant_together_the_first_that_is_done_is_found)
{
	struct journal_claim *first = made(), *second = made(), *other = made();
	struct journal journal = {.count = 0};

	list_init(&journal.all);
	other->tenant = 8;
	journal_add(&journal, first);
	journal_add(&journal, other);
	journal_add(&journal, second);
	expect(journal_before(&journal, second) == first);
	expect(!journal_before(&journal, first) && !journal_before(&journal, other));
	expect(journal_is_joint(&journal, first) && journal_is_joint(&journal, second) &&
	       !journal_is_joint(&journal, other));
	first->phase = JOURNAL_ENDING;
	expect(!journal_before(&journal, second));
	journal_close(&journal);
}
