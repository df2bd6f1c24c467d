/* SPDX-License-Identifier: Apache-2.0 */
/* mete doctor: what the host gives to memory that leaves a device. */
#include <string.h>

#include "base/file.h"
#include "cli/doctor.h"

#define SHMEM "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

/* "always within_size advise [never] deny force"; "" if the kernel has no such pages. */
static const char *chosen(char line[128])
{
	owned(fclose) FILE *file = fopen(SHMEM, "re");
	char *begin, *end;

	if (!file || !fgets(line, 128, file))
		return "";
	begin = strchr(line, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (!end)
		return "";
	*end = '\0';
	return begin + 1;
}

static bool gives_none(const char *word)
{
	return !*word || !strcmp(word, "never") || !strcmp(word, "deny");
}

/* The store asks for huge pages (madvise), which is all that `advise` needs. */
void check_pages(struct patient *patient, struct finding *finding)
{
	char line[128];
	const char *word = chosen(line);

	(void)patient;
	if (!gives_none(word)) {
		finding_set(finding, FINDING_FINE, "huge pages for memory that leaves a device");
		return;
	}
	finding_set(finding, FINDING_NOTE,
		    "pages of 4 KiB for memory that leaves a device (" SHMEM ": %s): the first "
		    "time that it leaves is slower",
		    *word ? word : "not there");
	finding_advise(finding, "as root: echo advise >" SHMEM);
}
