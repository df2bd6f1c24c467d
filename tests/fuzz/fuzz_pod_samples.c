/* SPDX-License-Identifier: Apache-2.0 */
/* A table of recorded pods: what is accepted is in order and within its bounds, what is not is
 * said. */
#include "replay/pod_samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(fclose) FILE *file = size ? fmemopen((void *)data, size, "r") : NULL;
	owned(pod_samples_done) struct pod_samples samples = {0};
	struct fault why = {.text = ""};

	if (!file)
		return 0;
	if (pod_samples_read(file, "pods", &samples, &why) < 0) {
		if (!why.text[0])
			abort();
		return 0;
	}
	for (size_t i = 0; i < samples.size; i++) {
		const struct pod_sample *s = &samples.row[i];

		if (s->duty_milli > 1000 || s->at_s > 1000000000 || s->memory > 1ull << 50)
			abort();
		if (i && (s->pod < s[-1].pod || (s->pod == s[-1].pod && s->at_s < s[-1].at_s)))
			abort();
	}
	if (!samples.size)
		abort();
	return 0;
}
