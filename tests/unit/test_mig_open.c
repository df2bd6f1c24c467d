/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library, which mig_broken.c stands in for, is ended as often as it is begun.
 */
#include <dlfcn.h>

#include "mig/nvml.h"
#include "tests/test.h"

TEST(a_library_that_does_not_answer_is_ended_again)
{
	void *library = dlopen(MIG_BROKEN "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	const int *open = library ? dlsym(library, "mig_broken_open") : NULL;
	struct mig_nvml *nvml;
	struct fault why;

	expect(open);
	for (unsigned i = 0; i < 3; i++) {
		expect_eq(mig_open(MIG_BROKEN, &nvml, &why), -EIO);
		expect_str(why.text, "NVML does not answer: broken");
		expect_eq(*open, 0);
	}
	dlclose(library);
}
