/* SPDX-License-Identifier: Apache-2.0 */
/* A record that is read while memory is short. */
#include "plugin/dra/journal.h"
#include "tests/test.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);

static uint32_t failing; /* that allocation fails, counted from 1; 0: none does */

static bool fails(void)
{
	if (!failing || --failing)
		return false;
	errno = ENOMEM;
	return true;
}

exported void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

exported void *calloc(size_t count, size_t size)
{
	return fails() ? NULL : __libc_calloc(count, size);
}

static const char record[] =
	"{\"uid\":\"u\",\"namespace\":\"ns\",\"name\":\"quarter\",\"phase\":\"done\","
	"\"boot\":\"b\",\"kind\":\"mete.dev/claim\",\"cdi-folder\":\"/c\",\"tenant\":7,"
	"\"share\":{\"memory\":\"4GiB\"},\"in-force\":{\"memory\":\"1GiB\"},"
	"\"results\":[{\"request\":\"gpu\",\"pool\":\"p\",\"device\":\"d\",\"share-id\":\"s\"}]}";

/* Otherwise it would be removed, and its claim's programs run on. */
TEST(a_record_without_memory_for_it_is_still_one)
{
	static const struct host host = {.devices = 0};
	uint32_t refused = 0;
	int r;

	do {
		owned(journal_free) struct journal_claim *entry = NULL;
		char boot[40];

		failing = ++refused;
		r = journal_parse("u", record, sizeof(record) - 1, &host, boot, &entry);
		failing = 0;
		expect(r == 0 || r == -ENOMEM);
	} while (r < 0);
	/* At least each text was refused once. */
	expect(refused > 12);
}
