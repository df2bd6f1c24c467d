/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers of a driver's look-ups: a text line per question, for programs that compare.
 *
 *	look LIBRARY ROUTE...       LIBRARY: a path or name for dlopen(); `-`: what is loaded
 *
 * Routes:
 *	symbols     each row of cuda/api.def by dlsym()
 *	ask         each base name by cuGetProcAddress() and, where the driver has it, its _v2: at
 *	            each version that changes something, with each flag. Behind `|` is what
 *	            cuda/resolve.h says
 *	odd         what no program should ask
 *	tables      cuGetExportTable() before cuInit()
 *	init        cuDriverGetVersion() and cuInit()
 *
 * An address is said as OBJECT:SYMBOL, where OBJECT is `guest` or `driver`, and SYMBOL is `?` where
 * the object exports nothing that begins there; or as `none`, or as `kept`: nothing was written.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/probe.h"
#include "cuda/prototypes.h"
#include "cuda/resolve.h"

static char untouched;
static api_fn_cuGetProcAddress *look_up;
static api_fn_cuGetProcAddress_v2 *look_up_v2;
static void *guest_base;
static int version;

static void *open_library(const char *library)
{
	void *handle, *answer = NULL;
	Dl_info about;

	handle = strcmp(library, "-") == 0 ? RTLD_DEFAULT : dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle && strcmp(library, "-") != 0) {
		fprintf(stderr, "look: %s\n", dlerror());
		exit(2);
	}
	*(void **)&look_up = dlsym(handle, "cuGetProcAddress");
	*(void **)&look_up_v2 = dlsym(handle, "cuGetProcAddress_v2");
	if (look_up && look_up(PROBE_NAME, &answer, 0, 0) == CUDA_SUCCESS && answer &&
	    dladdr(answer, &about))
		guest_base = about.dli_fbase;
	return handle;
}

static const char *name_of(const void *address, char text[256])
{
	Dl_info about;

	if (address == &untouched)
		return "kept";
	if (!address)
		return "none";
	if (!dladdr(address, &about))
		return "nowhere";
	snprintf(text, 256, "%s:%s", about.dli_fbase == guest_base ? "guest" : "driver",
		 about.dli_saddr == address && about.dli_sname ? about.dli_sname : "?");
	return text;
}

static void symbols(void *handle)
{
	char text[256];

	for (unsigned i = 0; i < API_ROWS; i++)
		printf("symbol %s %s\n", api_symbol(&api_rows[i]),
		       name_of(dlsym(handle, api_symbol(&api_rows[i])), text));
}

static void ask(const char *base, int asked, unsigned flags)
{
	void *address = &untouched, *address_v2 = &untouched;
	CUdriverProcAddressQueryResult status = 77;
	enum api_index row = API_cuInit;
	int wanted = resolve_symbol(base, asked, flags, version, &row);
	char text[256], text_v2[256];
	int r = (int)look_up(base, &address, asked, flags);
	int r_v2 = look_up_v2 ? (int)look_up_v2(base, &address_v2, asked, flags, &status) : -1;

	printf("ask %s %d %u = %d %s, ", base, asked, flags, r, name_of(address, text));
	if (look_up_v2)
		printf("%d %d %s", r_v2, (int)status, name_of(address_v2, text_v2));
	printf(" | %d %s\n", wanted, wanted ? "none" : api_symbol(&api_rows[row]));
}

/* Every version at which an answer may change, from one below it on. */
static void ask_versions(const char *base, unsigned first, unsigned count, unsigned flags)
{
	int last = 0;

	for (unsigned i = first; i < first + count; i++) {
		int of = api_rows[i].version;

		if (of == last)
			continue;
		ask(base, of - 10, flags);
		ask(base, of, flags);
		last = of;
	}
	ask(base, version, flags);
	ask(base, version + 10, flags);
	ask(base, 99990, flags);
}

static void asks(void)
{
	unsigned count;

	for (unsigned i = 0; i < API_ROWS; i += count) {
		const char *base = api_base(&api_rows[i]);

		for (count = 1; i + count < API_ROWS; count++)
			if (strcmp(api_base(&api_rows[i + count]), base) != 0)
				break;
		for (unsigned flags = 0; flags < 4; flags++)
			ask_versions(base, i, count, flags);
	}
}

static void odd(void)
{
	static const char *const names[] = {"cuNothing",	 "",
					    "cumemalloc",	 "cuMemAlloc_v2",
					    "cuMemAlloc_ptsz",	 "cuEGLApiInit",
					    "cuMemGetAttribute", "cudbgGetAPI"};
	static const unsigned flags[] = {4, 8, 255, 0x80000000};
	static const int versions[] = {0, -10, 1000, 1};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		ask(names[i], version, 0);
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		ask("cuLaunchKernel", version, flags[i]);
	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++)
		ask("cuMemAlloc", versions[i], 0);
}

/* The private tables that NVIDIA's runtime, tools and OpenCL ask for, and one that nobody has. */
static void tables(void *handle)
{
	static const unsigned char ids[][16] = {
		{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd,
		 0x9d, 0xf9},
		{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c,
		 0x0a, 0x66},
		{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a,
		 0xec, 0xdc},
		{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8,
		 0x95, 0x93},
		{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d,
		 0xfa, 0x7e},
		{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66,
		 0xe1, 0xf2},
		{0},
	};
	api_fn_cuGetExportTable *get = (api_fn_cuGetExportTable *)dlsym(handle, "cuGetExportTable");

	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		const void *address = &untouched;
		char text[256];
		CUuuid id;
		int r;

		memcpy(&id, ids[i], sizeof(id));
		r = (int)get(&address, &id);
		printf("table %02x%02x = %d %s\n", ids[i][0], ids[i][1], r, name_of(address, text));
	}
}

static void init(void *handle)
{
	api_fn_cuDriverGetVersion *get =
		(api_fn_cuDriverGetVersion *)dlsym(handle, "cuDriverGetVersion");
	api_fn_cuInit *start = (api_fn_cuInit *)dlsym(handle, "cuInit");
	int is = 0, r = (int)get(&is);

	printf("version %d %d\n", r, is);
	printf("init %d\n", (int)start(0));
	printf("init of flags %d\n", (int)start(1));
}

static void look_at(void *handle, const char *route)
{
	api_fn_cuDriverGetVersion *get =
		(api_fn_cuDriverGetVersion *)dlsym(handle, "cuDriverGetVersion");

	get(&version);
	if (strcmp(route, "symbols") == 0)
		symbols(handle);
	else if (strcmp(route, "ask") == 0)
		asks();
	else if (strcmp(route, "odd") == 0)
		odd();
	else if (strcmp(route, "tables") == 0)
		tables(handle);
	else if (strcmp(route, "init") == 0)
		init(handle);
	else
		exit(2);
}

int main(int argc, char **argv)
{
	void *handle;

	if (argc < 3)
		return 2;
	handle = open_library(argv[1]);
	for (int i = 2; i < argc; i++)
		look_at(handle, argv[i]);
	return 0;
}
