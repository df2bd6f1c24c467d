/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/driver/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define TABLE_HASHES
#include "base/place.h"
#include "cuda/probe.h"
#include "guest/driver/addresses.h"
#include "guest/driver/driver_file.h"
#include "guest/driver/symbols.h"
#include "guest/futex.h"
#include "guest/say.h"
#include "guest/tables.h"

enum {
	OLDEST_DRIVER = 11000,
};

_Static_assert((int)TABLE_CUDA == (int)API_ROWS && (int)TABLE_NVML == (int)NVML_ROWS,
	       "the tables are of one api.def");

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
	int error;		/* the result of calls if it could not be opened */
	struct symbols symbols; /* of the library; used if it is plain: */
	bool plain; /* its own table answers as dlsym() does, which is slow and takes locks */
};

static struct {
	struct library cuda, nvml;
	int version;
	uintptr_t begin, end; /* of the driver as it is loaded */
} driver;

/* Defined in trampolines.S. */
int guest_absent(void);
int guest_absent_nvml(void);
extern const char guest_stubs[] __attribute__((visibility("hidden")));

enum {
	STUB_BYTES = 16,
};

static uint32_t thread_id(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static bool is_of_cuda(unsigned index)
{
	return index < TABLE_CUDA || index >= TABLE_NAMES;
}

static struct library *library_of(unsigned index)
{
	return is_of_cuda(index) ? &driver.cuda : &driver.nvml;
}

/* ---- one function ---------------------------------------------------------------------------- */

static const char *name_of(unsigned index)
{
	if (index < TABLE_CUDA)
		return api_symbol(&api_rows[index]);
	return index < TABLE_NAMES ? nvml_symbol(&nvml_rows[index - TABLE_CUDA])
				   : names[index - TABLE_NAMES];
}

static void *find(unsigned index)
{
	const struct library *library = library_of(index);

	return library->plain ? symbols_find(&library->symbols, name_of(index), table_hash[index])
			      : dlsym(library->handle, name_of(index));
}

/* The address to call for a function whose library is open. The first caller looks it up; threads
 * that do so at the same time find the same, and an address that real_between() stored stays. */
static void *called(unsigned index)
{
	void *stub = (void *)(uintptr_t)(guest_stubs + (size_t)STUB_BYTES * index);
	void *slot = __atomic_load_n(&guest_real[index], __ATOMIC_ACQUIRE), *found;

	if (slot != stub)
		return slot;
	found = find(index);
	if (!found)
		found = is_of_cuda(index) ? (void *)guest_absent : (void *)guest_absent_nvml;
	return __atomic_compare_exchange_n(&guest_real[index], &slot, found, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
		       ? found
		       : slot;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Is the opened library this one, or another copy of it? */
static bool is_guest(void)
{
	api_fn_cuGetProcAddress *look_up = (api_fn_cuGetProcAddress *)find(API_cuGetProcAddress);
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

/* Chooses how functions are found: by the library's own table, if that has `known` and dlsym() does
 * not find another function of that name in the library. What it finds elsewhere is another
 * library's: one that is preloaded and has a dlsym() of its own (HAMi's, nvshare's), whose
 * functions would lead back to us. */
static void library_take(struct library *library, unsigned known)
{
	const struct link_map *object = library->handle; /* dlinfo(3) */
	struct symbols *symbols = &library->symbols;
	uintptr_t there = (uintptr_t)dlsym(library->handle, name_of(known)), own;

	library->plain = symbols_open(symbols, object->l_ld) == 0 &&
			 symbols->last - symbols->first <= ADDRESSES_MAX;
	own = library->plain ? (uintptr_t)find(known) : 0;
	library->plain = own && (own == there || there < symbols->begin || there >= symbols->end);
	/* Otherwise the driver is where that is, which may be a library that this one needs. */
	if (!library->plain)
		best_effort(symbols_open(symbols, (void *)there));
}

/* dlsym() may not be called by any thread at any time: so all functions are found now. */
static void take_all(unsigned begin, unsigned end)
{
	for (unsigned i = begin; i < end && !library_of(i)->plain; i++)
		best_effort(called(i));
}

static int addresses_note(void)
{
	addresses_clear();
	if (driver.cuda.plain)
		return addresses_take(&driver.cuda.symbols);
	for (unsigned i = 0; i < API_ROWS; i++) {
		const void *address = find(i);

		if (address && addresses_add(address, i) < 0)
			return -1;
	}
	return 0;
}

static int cuda_take(const char *path)
{
	struct library *cuda = &driver.cuda;
	api_fn_cuDriverGetVersion *version;

	cuda->error = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	library_take(cuda, API_cuInit);
	version = (api_fn_cuDriverGetVersion *)find(API_cuDriverGetVersion);
	if (!version || !find(API_cuInit)) {
		say("%s is not a CUDA driver: it lacks cuInit or cuDriverGetVersion", path);
		return -1;
	}
	if (is_guest()) {
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
	driver.begin = cuda->symbols.begin;
	driver.end = cuda->symbols.end;
	if (addresses_note() < 0)
		return -1;
	take_all(0, TABLE_CUDA);
	take_all(TABLE_NAMES, TABLE_ROWS);
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
	struct driver_file file;

	library->error = NVML_ERROR_LIBRARY_NOT_FOUND;
	if (driver_file_find(WIRE_LIBRARY_NVML, &file) < 0)
		return -1;
	library->handle = dlopen(file.path, RTLD_NOW | RTLD_LOCAL);
	driver_file_done(&file);
	if (!library->handle)
		return -1;
	library_take(library, API_ROWS + NVML_ROW_nvmlInit_v2);
	take_all(TABLE_CUDA, TABLE_NAMES);
	return 0;
}

/* Was it opened by a thread of the parent, before fork()? Then it is opened anew. */
static bool opener_gone(struct library *library)
{
	uint32_t opener = atomic_load(&library->opener), was = OPENING_NOW;

	if (!opener || syscall(SYS_tgkill, getpid(), opener, 0) == 0 || errno != ESRCH)
		return false;
	return atomic_compare_exchange_strong(&library->opening, &was, OPENING_NEW);
}

/* Opened once, by the first caller. A call from inside the opening (a constructor of the driver
 * that calls CUDA) is answered as if there were no driver yet. */
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
	void *there;

	if (is_of_cuda(index) ? real_open() != CUDA_SUCCESS
			      : library_open(&driver.nvml, nvml_open) != 0)
		return 0;
	there = called(index);
	return there != (void *)guest_absent && there != (void *)guest_absent_nvml;
}

void real_adopt(unsigned index, void *address)
{
	void *was = called(index);

	if (was == (void *)guest_absent)
		__atomic_compare_exchange_n(&guest_real[index], &was, address, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void real_between(unsigned index, void *function)
{
	if (called(index) != (void *)guest_absent)
		__atomic_store_n(&guest_real[index], function, __ATOMIC_RELEASE);
}

/* The result of calls while there is no driver, or none yet. */
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
			return called(index);
		return index == API_cuGetErrorName || index == API_cuGetErrorString
			       ? (void *)answer_cuda_text
			       : (void *)answer_cuda;
	}
	if (library_open(&driver.nvml, nvml_open) != 0)
		return index == API_ROWS + NVML_ROW_nvmlErrorString ? (void *)answer_nvml_text
								    : (void *)answer_nvml;
	return called(index);
}
