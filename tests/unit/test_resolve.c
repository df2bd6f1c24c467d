/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/test.h"

#include "cuda/api.h"
#include "cuda/nvml.h"
#include "cuda/resolve.h"

static const char *symbol(const char *name, int version, uint64_t flags, int driver)
{
	enum api_index index;
	int r = resolve_symbol(name, version, flags, driver, &index);

	return r == 0		      ? api_symbol(&api_rows[index])
	       : r == RESOLVE_UNKNOWN ? "unknown"
	       : r == RESOLVE_TOO_OLD ? "too old"
				      : "?";
}

TEST(the_highest_version_not_above_the_one_asked_for_is_taken)
{
	expect_str(symbol("cuMemAlloc", 2000, 0, 12090), "cuMemAlloc");
	expect_str(symbol("cuMemAlloc", 3010, 0, 12090), "cuMemAlloc");
	expect_str(symbol("cuMemAlloc", 3020, 0, 12090), "cuMemAlloc_v2");
	expect_str(symbol("cuMemAlloc", 12090, 0, 12090), "cuMemAlloc_v2");
	expect_str(symbol("cuCtxCreate", 3020, 0, 13000), "cuCtxCreate_v2");
	expect_str(symbol("cuCtxCreate", 11040, 0, 13000), "cuCtxCreate_v3");
	expect_str(symbol("cuCtxCreate", 12040, 0, 13000), "cuCtxCreate_v3");
	expect_str(symbol("cuCtxCreate", 12050, 0, 13000), "cuCtxCreate_v4");
	expect_str(symbol("cuGetProcAddress", 11030, 0, 12090), "cuGetProcAddress");
	expect_str(symbol("cuGetProcAddress", 12000, 0, 12090), "cuGetProcAddress_v2");
	expect_str(symbol("cuStreamGetCaptureInfo", 11030, 0, 13000), "cuStreamGetCaptureInfo_v2");
}

TEST(a_driver_has_nothing_newer_than_itself)
{
	expect_str(symbol("cuCtxGetDevice", 13000, 0, 12090), "cuCtxGetDevice");
	expect_str(symbol("cuCtxGetDevice", 13000, 0, 13000), "cuCtxGetDevice_v2");
	expect_str(symbol("cuMemGetMemPool", 13000, 0, 12090), "unknown");
	expect_str(symbol("cuCtxCreate", 99000, 0, 12040), "cuCtxCreate_v3");
}

TEST(a_function_newer_than_the_version_asked_for_is_refused_as_too_new)
{
	expect_str(symbol("cuGraphLaunch", 9000, 0, 12090), "too old");
	expect_str(symbol("cuInit", 1000, 0, 12090), "too old");
}

TEST(per_thread_streams_are_preferred_where_there_are_any)
{
	expect_str(symbol("cuMemcpyHtoD", 7000, RESOLVE_PER_THREAD, 12090), "cuMemcpyHtoD_v2_ptds");
	expect_str(symbol("cuMemcpyHtoD", 7000, RESOLVE_LEGACY, 12090), "cuMemcpyHtoD_v2");
	expect_str(symbol("cuMemcpyHtoD", 7000, 0, 12090), "cuMemcpyHtoD_v2");
	expect_str(symbol("cuLaunchKernel", 12000, RESOLVE_PER_THREAD, 12090),
		   "cuLaunchKernel_ptsz");
	expect_str(symbol("cuMemAlloc", 12000, RESOLVE_PER_THREAD, 12090), "cuMemAlloc_v2");
	expect_str(symbol("cuMemPrefetchAsync", 12020, RESOLVE_PER_THREAD, 13000),
		   "cuMemPrefetchAsync_v2_ptsz");
	expect_str(symbol("cuMemPrefetchAsync", 12020, RESOLVE_PER_THREAD, 12000),
		   "cuMemPrefetchAsync_ptsz");
}

TEST(a_version_from_before_the_per_thread_streams_has_none_of_them)
{
	expect_str(symbol("cuMemcpyHtoD", 6050, RESOLVE_PER_THREAD, 12090), "too old");
	expect_str(symbol("cuLaunchKernel", 4000, RESOLVE_PER_THREAD | RESOLVE_LEGACY, 12090),
		   "too old");
	expect_str(symbol("cuMemcpyHtoD", 6050, RESOLVE_LEGACY, 12090), "cuMemcpyHtoD_v2");
}

TEST(a_negative_version_is_as_good_as_the_drivers)
{
	expect_str(symbol("cuMemAlloc", -10, 0, 12090), "cuMemAlloc_v2");
	expect_str(symbol("cuCtxCreate", -1, 0, 12040), "cuCtxCreate_v3");
}

TEST(a_name_that_is_not_in_the_table_is_unknown)
{
	expect_str(symbol("", 0, 0, 12090), "unknown");
	expect_str(symbol("cuMemAlloc_v2", 12090, 0, 12090), "unknown");
	expect_str(symbol("cuMemAllo", 12090, 0, 12090), "unknown");
	expect_str(symbol("cuMemAllocX", 12090, 0, 12090), "unknown");
	expect_str(symbol("cuWGLGetDevice", 12090, 0, 12090), "unknown");
	expect_str(symbol("printf", 12090, 0, 12090), "unknown");
}

TEST(a_refusal_leaves_the_answer_alone)
{
	enum api_index index = API_cuInit;

	expect_eq(resolve_symbol("nothing", 12000, 0, 12000, &index), RESOLVE_UNKNOWN);
	expect_eq(index, API_cuInit);
}

/* The rule in its plainest form, over all rows. */
static const struct api_row *searched(const char *name, int version, uint64_t flags, int driver)
{
	const struct api_row *best = NULL;
	int own = 0;

	for (size_t i = 0; i < API_ROWS; i++)
		own |= (flags & RESOLVE_PER_THREAD) && strcmp(api_base(&api_rows[i]), name) == 0 &&
		       api_rows[i].version <= driver && api_rows[i].stream != API_PLAIN;
	for (size_t i = 0; i < API_ROWS; i++) {
		const struct api_row *row = &api_rows[i];

		if (strcmp(api_base(row), name) != 0 || (row->stream != API_PLAIN) != own ||
		    row->version > version || row->version > driver)
			continue;
		if (!best || row->version > best->version)
			best = row;
	}
	return best;
}

TEST(every_name_version_and_stream_resolves_as_a_search_through_the_table_would)
{
	for (size_t i = 0; i < API_ROWS; i++) {
		for (uint64_t flags = 0; flags <= 2; flags++) {
			for (int driver = 11000; driver <= 13000; driver += 500) {
				const char *name = api_base(&api_rows[i]);
				int version = api_rows[i].version;
				const struct api_row *row = searched(name, version, flags, driver);

				expect_eq(row != NULL, strncmp(symbol(name, version, flags, driver),
							       "cu", 2) == 0);
				if (row)
					expect_str(symbol(name, version, flags, driver),
						   api_symbol(row));
			}
		}
	}
}

TEST(each_row_is_found_under_its_own_name_version_and_stream)
{
	for (size_t i = 0; i < API_ROWS; i++) {
		const struct api_row *row = &api_rows[i];
		uint64_t flags = row->stream == API_PLAIN ? RESOLVE_LEGACY : RESOLVE_PER_THREAD;

		expect_str(symbol(api_base(row), row->version, flags, 13000), api_symbol(row));
	}
}

TEST(random_names_never_resolve_and_never_go_astray)
{
	for (unsigned i = 0; i < 20000; i++) {
		char name[24];
		size_t length = test_random_below(sizeof(name) - 1);

		for (size_t c = 0; c < length; c++)
			name[c] = (char)(1 + test_random_below(255));
		name[length] = 0;
		expect_str(symbol(name, 13000, i % 3, 13000), "unknown");
	}
}

TEST(the_table_has_all_the_functions_of_a_13_0_driver)
{
	size_t driver = 0, others = 0, in_12_9 = 0;

	for (size_t i = 0; i < API_ROWS; i++) {
		const char *name = api_base(&api_rows[i]);

		if (strncmp(name, "cuGL", 4) == 0 || strncmp(name, "cuEGL", 5) == 0 ||
		    strncmp(name, "cuVDPAU", 7) == 0 || strstr(name, "sGLR") ||
		    strstr(name, "sEGLR") || strstr(name, "sVDPAUR") || strstr(name, "EGLSync") ||
		    strstr(name, "MappedEglFrame"))
			others++;
		else
			driver++;
		in_12_9 += api_rows[i].version <= 12090;
	}
	expect_eq(driver, 637);
	expect_eq(others, 35);
	expect_eq(in_12_9, 655);
	expect_eq(NVML_ROWS, 441);
}

TEST(a_class_is_given_to_every_row_and_a_reason_to_the_refused_ones)
{
	size_t count[API_CLASSES] = {0};

	for (size_t i = 0; i < API_ROWS; i++) {
		expect(api_rows[i].class < API_CLASSES);
		count[api_rows[i].class]++;
		expect_eq(api_rows[i].class == API_REFUSE, api_rows[i].refusal != API_REFUSAL_NONE);
	}
	for (size_t c = 0; c < API_CLASSES; c++) {
		expect(count[c] > 0);
		expect(api_class_names[c] != NULL);
	}
	for (size_t i = 0; i < NVML_ROWS; i++) {
		uint8_t class = nvml_rows[i].class;

		expect(class == API_PASS || class == API_QUERY || class == API_REFUSE);
		expect_eq(class == API_REFUSE, nvml_rows[i].refusal != API_REFUSAL_NONE);
		expect(class != API_QUERY || nvml_rows[i].has_prototype);
	}
	for (size_t r = 1; r < API_REFUSALS; r++)
		expect(strlen(api_refusal_texts[r]) > 20);
}

TEST(every_function_that_submits_work_is_launch)
{
	static const char *const submits[] = {"cuLaunch",	   "cuMemcpy",
					      "cuMemset",	   "cuGraphLaunch",
					      "cuStreamWaitValue", "cuStreamWriteValue"};

	for (size_t i = 0; i < API_ROWS; i++)
		for (size_t s = 0; s < ARRAY_SIZE(submits); s++)
			if (strncmp(api_symbol(&api_rows[i]), submits[s], strlen(submits[s])) == 0)
				expect_eq(api_rows[i].class, API_LAUNCH);
}

TEST(variants_of_a_function_are_of_one_class)
{
	for (size_t i = 1; i < API_ROWS; i++)
		if (strcmp(api_base(&api_rows[i]), api_base(&api_rows[i - 1])) == 0)
			expect_eq(api_rows[i].class, api_rows[i - 1].class);
}
