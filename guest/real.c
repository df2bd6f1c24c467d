/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define TABLE_HASHES
#define TABLE_KINDS
#include "base/place.h"
#include "cuda/probe.h"
#include "guest/driver_file.h"
#include "guest/futex.h"
#include "guest/say.h"
#include "guest/symbols.h"
#include "guest/tables.h"

enum {
	HASH_SLOTS = 2048, /* power of two, about three times the rows */
	OLDEST_DRIVER = 11000,
};

_Static_assert((int)TABLE_CUDA == (int)API_ROWS && (int)TABLE_NVML == (int)NVML_ROWS,
	       "the tables are of one api.def");
_Static_assert((int)TABLE_CUDA * 2 <= (int)HASH_SLOTS, "the hash has room");

/* Of rows from TABLE_NAMES on. */
static const char names[][24] = {
#define CUDA_NAME(symbol) #symbol,
#include "cuda/names.def"
#undef CUDA_NAME
};

_Static_assert(ARRAY_SIZE(names) == TABLE_ROWS - TABLE_NAMES, "the names are of one names.def");

enum opening {
	OPENING_NEW = 0,
	OPENING_NOW,
	OPENING_DONE,
	OPENING_FAILED,
};

/* One of these for the driver and one for NVML. */
struct library {
	_Atomic uint32_t opening; /* enum opening; a futex */
	_Atomic uint32_t opener;  /* its thread */
	void *handle;
	int error; /* what calls answer when it could not be opened */
};

static struct {
	struct library cuda, nvml;
	int version;
	uintptr_t begin, end; /* of the driver as it is loaded */
	struct {
		const void *address;
		int32_t index;
	} hash[HASH_SLOTS];
} driver;

/* Defined in trampolines.S. */
int guest_absent(void);
int guest_absent_nvml(void);

static uint32_t thread_id(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static unsigned hash_of(const void *address)
{
	return (unsigned)(((uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
	       (HASH_SLOTS - 1);
}

int real_index_of(const void *address)
{
	unsigned slot = hash_of(address);

	while (driver.hash[slot].address) {
		if (driver.hash[slot].address == address)
			return driver.hash[slot].index;
		slot = (slot + 1) & (HASH_SLOTS - 1);
	}
	return -1;
}

/* Both versions take the same and do the same, and so do our hooks of them. */
static bool two_versions_of_one(unsigned a, unsigned b)
{
	unsigned low = a < b ? a : b, high = a < b ? b : a;

	return (low == API_cuCtxPushCurrent && high == API_cuCtxPushCurrent_v2) ||
	       (low == API_cuCtxPopCurrent && high == API_cuCtxPopCurrent_v2);
}

/* May the two share an address: does a look-up that answers the one serve for the other as well? */
static bool interchangeable(unsigned a, unsigned b)
{
	return table_kind[a] == table_kind[b] &&
	       (table_kind[a] != TRAMPOLINE_HOOK || two_versions_of_one(a, b));
}

/* 0, or -1 when another function with another hook has that address. */
static int hash_add(const void *address, int index)
{
	unsigned slot = hash_of(address);

	for (; driver.hash[slot].address; slot = (slot + 1) & (HASH_SLOTS - 1)) {
		int other = driver.hash[slot].index;

		if (driver.hash[slot].address != address)
			continue;
		if (interchangeable((unsigned)other, (unsigned)index))
			return 0;
		say("the driver has the same address for %s and %s, which must differ: it is not "
		    "used",
		    api_symbol(&api_rows[other]), api_symbol(&api_rows[index]));
		return -1;
	}
	driver.hash[slot].index = index;
	driver.hash[slot].address = address;
	return 0;
}

/* Is what was opened this library, or another copy of it? */
static bool is_guest(void *handle)
{
	CUresult (*look_up)(const char *, void **, int, cuuint64_t) =
		dlsym(handle, "cuGetProcAddress");
	void *answer = NULL;

	if (!look_up)
		return false;
	if ((void *)look_up == guest_export(API_cuGetProcAddress))
		return true;
	if (look_up(PROBE_NAME, &answer, 0, 0) != CUDA_SUCCESS || !answer)
		return false;
	return strcmp(answer, PROBE_ANSWER) == 0;
}

bool real_is_driver(const void *address)
{
	return (uintptr_t)address >= driver.begin && (uintptr_t)address < driver.end;
}

/* How a library's functions are found: by its own table, if `known` and `there` show that it says
 * the same as dlsym(), which is slow. */
struct finder {
	void *handle;
	struct symbols symbols;
	bool direct;
};

static void finder_open(struct finder *finder, void *handle, unsigned index, const char *known)
{
	void *there = dlsym(handle, known);

	finder->handle = handle;
	finder->direct = there && symbols_open(&finder->symbols, there) == 0 &&
			 symbols_find(&finder->symbols, known, table_hash[index]) == there;
}

static void *find(const struct finder *finder, unsigned index, const char *name)
{
	return finder->direct ? symbols_find(&finder->symbols, name, table_hash[index])
			      : dlsym(finder->handle, name);
}

static bool is_of_cuda(unsigned index)
{
	return index < TABLE_CUDA || index >= TABLE_NAMES;
}

/* What no header declares: names alone. */
static void names_take(const struct finder *finder)
{
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		void *address = find(finder, TABLE_NAMES + i, names[i]);

		__atomic_store_n(&guest_real[TABLE_NAMES + i],
				 address ? address : (void *)guest_absent, __ATOMIC_RELEASE);
	}
}

static int cuda_take(const char *path)
{
	struct library *cuda = &driver.cuda;
	api_fn_cuDriverGetVersion *version = dlsym(cuda->handle, "cuDriverGetVersion");
	void *address[API_ROWS];
	struct finder finder = {.handle = NULL};

	cuda->error = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	if (!version || !dlsym(cuda->handle, "cuInit")) {
		say("%s is not a CUDA driver: it lacks cuInit or cuDriverGetVersion", path);
		return -1;
	}
	if (is_guest(cuda->handle)) {
		say("%s is mete's own library, not a driver: METE_DRIVER (or %s) must lead to "
		    "NVIDIA's or the simulator's",
		    path, PLACE_DRIVER);
		return -1;
	}
	if (version(&driver.version) != CUDA_SUCCESS)
		driver.version = 0;
	if (driver.version != 0 && driver.version < OLDEST_DRIVER) {
		say("%s is a driver of CUDA %d.%d; 11.0 is the oldest that is accepted", path,
		    driver.version / 1000, driver.version % 1000 / 10);
		return -1;
	}
	finder_open(&finder, cuda->handle, API_cuInit, "cuInit");
	driver.begin = finder.symbols.begin;
	driver.end = finder.symbols.end;
	for (unsigned i = 0; i < API_ROWS; i++) {
		address[i] = find(&finder, i, api_symbol(&api_rows[i]));
		if (address[i] && hash_add(address[i], (int)i) < 0)
			return -1;
	}
	for (unsigned i = 0; i < API_ROWS; i++)
		__atomic_store_n(&guest_real[i], address[i] ? address[i] : (void *)guest_absent,
				 __ATOMIC_RELEASE);
	names_take(&finder);
	return 0;
}

static int cuda_open(struct library *library)
{
	struct driver_file file;
	int r;

	library->error = CUDA_ERROR_NO_DEVICE;
	if (driver_file_find(WIRE_LIBRARY_CUDA, &file) < 0)
		return -1;
	library->handle = dlopen(file.path, RTLD_NOW | RTLD_LOCAL);
	if (library->handle) {
		r = cuda_take(file.path);
	} else {
		const char *why = dlerror();

		say("the driver cannot be loaded: %s", why ? why : file.path);
		r = -1;
	}
	driver_file_done(&file);
	return r;
}

static int nvml_open(struct library *library)
{
	struct finder finder = {.handle = NULL};
	struct driver_file file;

	library->error = NVML_ERROR_LIBRARY_NOT_FOUND;
	if (driver_file_find(WIRE_LIBRARY_NVML, &file) < 0)
		return -1;
	library->handle = dlopen(file.path, RTLD_NOW | RTLD_LOCAL);
	driver_file_done(&file);
	if (!library->handle)
		return -1;
	finder_open(&finder, library->handle, API_ROWS + NVML_ROW_nvmlInit_v2, "nvmlInit_v2");
	for (unsigned i = 0; i < TABLE_NVML; i++) {
		void *address = find(&finder, TABLE_CUDA + i, nvml_symbol(&nvml_rows[i]));

		__atomic_store_n(&guest_real[TABLE_CUDA + i],
				 address ? address : (void *)guest_absent_nvml, __ATOMIC_RELEASE);
	}
	return 0;
}

/* The opener is a thread of the parent's, in a child of fork(): then it is opened anew. */
static bool opener_gone(struct library *library)
{
	uint32_t opener = atomic_load(&library->opener), was = OPENING_NOW;

	if (!opener || syscall(SYS_tgkill, getpid(), opener, 0) == 0 || errno != ESRCH)
		return false;
	return atomic_compare_exchange_strong(&library->opening, &was, OPENING_NEW);
}

/* Once, whoever comes first. A call from inside the opening (a constructor of the driver that
 * calls CUDA) is answered as if there were no driver yet. */
static int library_open(struct library *library, int (*open)(struct library *))
{
	uint32_t was = OPENING_NEW;
	int saved = errno;

	if (atomic_load_explicit(&library->opening, memory_order_acquire) == OPENING_DONE)
		return 0;
	if (atomic_compare_exchange_strong(&library->opening, &was, OPENING_NOW)) {
		atomic_store(&library->opener, thread_id());
		was = open(library) == 0 ? OPENING_DONE : OPENING_FAILED;
		atomic_store(&library->opening, was);
		futex_wake_all(&library->opening);
	}
	while (was == OPENING_NOW) {
		if (atomic_load(&library->opener) == thread_id())
			return CUDA_ERROR_NOT_INITIALIZED;
		futex_wait(&library->opening, OPENING_NOW, 100, FUTEX_PRIVATE_FLAG);
		if (opener_gone(library))
			return library_open(library, open);
		was = atomic_load(&library->opening);
	}
	errno = saved;
	return was == OPENING_DONE ? 0 : library->error;
}

CUresult real_open(void)
{
	return (CUresult)library_open(&driver.cuda, cuda_open);
}

int real_version(void)
{
	return real_open() == CUDA_SUCCESS ? driver.version : 0;
}

int real_exists(unsigned index)
{
	void *slot;

	if (is_of_cuda(index) ? real_open() != CUDA_SUCCESS
			      : library_open(&driver.nvml, nvml_open) != 0)
		return 0;
	slot = __atomic_load_n(&guest_real[index], __ATOMIC_RELAXED);
	return slot != (void *)guest_absent && slot != (void *)guest_absent_nvml;
}

void real_adopt(unsigned index, void *address)
{
	void *absent = (void *)guest_absent;

	__atomic_compare_exchange_n(&guest_real[index], &absent, address, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

void real_between(unsigned index, void *function)
{
	void *was = __atomic_load_n(&guest_real[index], __ATOMIC_RELAXED);

	if (was != (void *)guest_absent)
		__atomic_store_n(&guest_real[index], function, __ATOMIC_RELEASE);
}

/* What calls answer while there is no driver, or none yet. */
static int answer_cuda(void)
{
	int r = (int)real_open();

	return r ? r : CUDA_ERROR_NOT_INITIALIZED;
}

static int answer_nvml(void)
{
	int r = library_open(&driver.nvml, nvml_open);

	return r == NVML_ERROR_LIBRARY_NOT_FOUND ? r : NVML_ERROR_UNINITIALIZED;
}

/* Programs print these texts without looking at the result. */
static CUresult answer_cuda_text(CUresult error, const char **text)
{
	(void)error;
	if (text)
		*text = "no CUDA driver (see the message of mete)";
	return (CUresult)answer_cuda();
}

static const char *answer_nvml_text(nvmlReturn_t result)
{
	return result == NVML_ERROR_LIBRARY_NOT_FOUND ? "NVML Shared Library Not Found"
						      : "Unknown Error";
}

void *real_resolve(unsigned index)
{
	if (is_of_cuda(index)) {
		if (real_open() == CUDA_SUCCESS)
			return __atomic_load_n(&guest_real[index], __ATOMIC_RELAXED);
		return index == API_cuGetErrorName || index == API_cuGetErrorString
			       ? (void *)answer_cuda_text
			       : (void *)answer_cuda;
	}
	if (library_open(&driver.nvml, nvml_open) != 0)
		return index == API_ROWS + NVML_ROW_nvmlErrorString ? (void *)answer_nvml_text
								    : (void *)answer_nvml;
	return __atomic_load_n(&guest_real[index], __ATOMIC_RELAXED);
}
