/* SPDX-License-Identifier: Apache-2.0 */
/* Any control file: rows that are accepted can happen, refusals have a sentence. */
#include <stdlib.h>
#include <string.h>

#include "sim/machine/faults.h"
#include "sim/machine/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct faults_row rows[FAULTS_MAX];
	owned(free) char *text = malloc(size + 1);
	struct fault why = {.text = ""};
	size_t count = 0;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	if (faults_parse(text, rows, &count, &why) < 0) {
		must(why.text[0] && strlen(why.text) < sizeof(why.text) && count == 0);
		return 0;
	}
	must(count <= FAULTS_MAX);
	for (size_t i = 0; i < count; i++) {
		must(rows[i].kind > FAULTS_NONE && rows[i].kind <= FAULTS_ELSEWHERE);
		must(rows[i].point >= FAULTS_ALLOCATION && rows[i].point < FAULTS_POINTS);
		must(rows[i].first >= 1 && rows[i].first <= rows[i].last);
		must(rows[i].device >= -1 && rows[i].device < SETTINGS_DEVICES_MAX);
		must(rows[i].pid >= 0);
	}
	return 0;
}
