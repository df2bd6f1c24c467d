/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/workload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

void workload_fail(struct workload *w, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", w->name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

void workload_tried(struct workload *w, CUresult result, const char *call)
{
	const char *name = "an unknown error";

	if (result == CUDA_SUCCESS)
		return;
	w->cuGetErrorName(result, &name);
	workload_fail(w, "%s answers %s (%d)", call, name, (int)result);
}

static void open_driver(struct workload *w)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		workload_fail(w, "no CUDA driver: %s", dlerror());
#define DRIVER(symbol)                                                                             \
	w->symbol = (__typeof__(&symbol))dlsym(library, #symbol);                                  \
	if (!w->symbol)                                                                            \
		workload_fail(w, "the driver has no " #symbol);
#include "examples/driver.def"
#undef DRIVER
}

static void check_settings(struct workload *w, int argc, char **argv, const char *const settings[])
{
	for (int i = 1; i < argc; i++) {
		size_t n = strcspn(argv[i], "=");
		bool known = false;

		for (const char *const *name = settings; *name; name++)
			known |=
				strlen(*name) == n && strncmp(*name, argv[i], n) == 0 && argv[i][n];
		if (known)
			continue;
		fprintf(stderr, "%s: '%s' is not a setting; there are:", w->name, argv[i]);
		for (const char *const *name = settings; *name; name++)
			fprintf(stderr, " %s=NUMBER", *name);
		fputc('\n', stderr);
		exit(2);
	}
}

uint64_t workload_setting(int argc, char **argv, const char *name, uint64_t otherwise)
{
	size_t n = strlen(name);

	for (int i = 1; i < argc; i++) {
		char *end;
		uint64_t value;

		if (strncmp(argv[i], name, n) != 0 || argv[i][n] != '=')
			continue;
		value = strtoull(argv[i] + n + 1, &end, 10);
		if (end == argv[i] + n + 1 || (*end && !strchr("KMG", *end)) || (*end && end[1])) {
			fprintf(stderr, "%s: a number is wanted, with K, M or G behind it or not\n",
				argv[i]);
			exit(2);
		}
		return value << (*end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0);
	}
	return otherwise;
}

void workload_begin(struct workload *w, const char *name, const char *ptx, int argc, char **argv,
		    const char *const settings[])
{
	*w = (struct workload){.name = name, .random = 42, .checksum = 0xcbf29ce484222325u};
	check_settings(w, argc, argv, settings);
	open_driver(w);
	workload_try(w, w->cuInit(0));
	workload_try(w, w->cuDeviceGet(&w->device, 0));
	workload_try(w, w->cuDevicePrimaryCtxRetain(&w->context, w->device));
	workload_try(w, w->cuCtxSetCurrent(w->context));
	workload_try(w, w->cuModuleLoadData(&w->module, ptx));
}

void workload_pause(struct workload *w, const char *where)
{
	char line[64];

	workload_try(w, w->cuCtxSynchronize());
	printf("%s: %s\n", w->name, where);
	if (fflush(stdout) != 0 || (!fgets(line, sizeof(line), stdin) && ferror(stdin)))
		workload_fail(w, "nobody to talk to: %s", strerror(errno));
}

int workload_end(struct workload *w, const char *format, ...)
{
	va_list arguments;

	workload_try(w, w->cuCtxSynchronize());
	if (w->held_bytes)
		workload_fail(w, "%zu bytes were never freed", w->held_bytes);
	workload_try(w, w->cuModuleUnload(w->module));
	workload_try(w, w->cuDevicePrimaryCtxRelease_v2(w->device));
	printf("%s ok checksum=%016llx peak_bytes=%zu ", w->name, (unsigned long long)w->checksum,
	       w->peak_bytes);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	return fflush(stdout) == 0 ? 0 : 1;
}

/* As PyTorch's expandable segments have it: pieces are mapped one behind the other, and opened
 * together. */
enum {
	SMALL_PIECE = 2 << 20,
	LARGE_PIECE = 20 << 20,
};

static size_t segment_bytes(size_t bytes, size_t *ret_piece)
{
	*ret_piece = bytes < LARGE_PIECE ? SMALL_PIECE : LARGE_PIECE;
	return (bytes + *ret_piece - 1) / *ret_piece * *ret_piece;
}

static CUdeviceptr segment_new(struct workload *w, size_t bytes)
{
	CUmemAllocationProp about = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes =
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {about.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	size_t piece, whole = segment_bytes(bytes, &piece);
	CUdeviceptr base;

	workload_try(w, w->cuMemAddressReserve(&base, whole, 0, 0, 0));
	for (size_t at = 0; at < whole; at += piece) {
		workload_try(w, w->cuMemCreate(&handle, piece, &about, 0));
		workload_try(w, w->cuMemMap(base + at, piece, 0, handle, 0));
		workload_try(w, w->cuMemRelease(handle));
	}
	workload_try(w, w->cuMemSetAccess(base, whole, &access, 1));
	return base;
}

static void segment_free(struct workload *w, CUdeviceptr base, size_t bytes)
{
	size_t piece, whole = segment_bytes(bytes, &piece);

	workload_try(w, w->cuCtxSynchronize());
	workload_try(w, w->cuMemUnmap(base, whole));
	workload_try(w, w->cuMemAddressFree(base, whole));
}

CUdeviceptr workload_alloc(struct workload *w, size_t bytes)
{
	CUdeviceptr pointer;

	if (w->segments)
		pointer = segment_new(w, bytes);
	else
		workload_try(w, w->cuMemAlloc_v2(&pointer, bytes));
	w->held_bytes += bytes;
	if (w->held_bytes > w->peak_bytes)
		w->peak_bytes = w->held_bytes;
	return pointer;
}

void workload_free(struct workload *w, CUdeviceptr pointer, size_t bytes)
{
	if (w->segments)
		segment_free(w, pointer, bytes);
	else
		workload_try(w, w->cuMemFree_v2(pointer));
	w->held_bytes -= bytes;
}

CUfunction workload_kernel(struct workload *w, const char *name)
{
	CUfunction kernel;

	workload_try(w, w->cuModuleGetFunction(&kernel, w->module, name));
	return kernel;
}

void workload_launch(struct workload *w, CUstream stream, CUfunction kernel, size_t threads,
		     void **arguments)
{
	size_t blocks = (threads + 127) / 128;

	if (blocks > 64)
		blocks = 64;
	workload_try(w, w->cuLaunchKernel(kernel, (unsigned)blocks, 1, 1, 128, 1, 1, 0, stream,
					  arguments, NULL));
}

/* Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
uint64_t workload_random(struct workload *w)
{
	uint64_t z = w->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

float workload_random_unit(struct workload *w)
{
	return (float)((int64_t)(workload_random(w) >> 40) - (1 << 23)) / (float)(1 << 23);
}

void workload_sum(struct workload *w, const void *data, size_t bytes)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < bytes; i++)
		w->checksum = (w->checksum ^ byte[i]) * 0x100000001b3u;
}

uint64_t workload_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
