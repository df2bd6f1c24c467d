/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/driver.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cuda/prototypes.h"
#include "sim/machine/device.h"
#include "sim/machine/segment.h"
#include "sim/machine/settings.h"

#define LACKS_MOST 16

enum driver_state {
	DRIVER_IDLE,
	DRIVER_READY,
	DRIVER_FORKED, /* the parent's state is of no use here */
};

static struct {
	pthread_mutex_t starting, lock;
	_Atomic int state;
	_Atomic int logging; /* enum log_level */
	bool handler_set;
	pthread_mutex_t saying;
	uint64_t lacks[LACKS_MOST]; /* features that were reported as missing; under `saying` */
	unsigned n_lacks;
} driver = {
	.starting = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.saying = PTHREAD_MUTEX_INITIALIZER,
};

static _Thread_local struct {
	unsigned callbacks, per_thread;
} driver_thread;

static void in_child(void)
{
	if (atomic_load(&driver.state) == DRIVER_READY)
		atomic_store(&driver.state, DRIVER_FORKED);
}

CUresult driver_ready(void)
{
	if (driver_thread.callbacks)
		return CUDA_ERROR_NOT_PERMITTED;
	if (atomic_load_explicit(&driver.state, memory_order_acquire) != DRIVER_READY)
		return CUDA_ERROR_NOT_INITIALIZED;
	return CUDA_SUCCESS;
}

CUresult driver_knows(enum handle_kind kind, const void *handle)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	return handle_is(kind, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult driver_device(CUdevice device)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	return device >= 0 && device < device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

void driver_enter_callback(void)
{
	driver_thread.callbacks++;
}

void driver_leave_callback(void)
{
	driver_thread.callbacks--;
}

void driver_enter_per_thread(void)
{
	driver_thread.per_thread++;
}

void driver_leave_per_thread(void)
{
	driver_thread.per_thread--;
}

bool driver_is_per_thread(void)
{
	return driver_thread.per_thread != 0;
}

void driver_lock(void)
{
	pthread_mutex_lock(&driver.lock);
}

void driver_unlock(void)
{
	pthread_mutex_unlock(&driver.lock);
}

enum log_level {
	LOG_UNKNOWN,
	LOG_NOTHING,
	LOG_LACKS, /* missing features, by name, each once */
	LOG_ALL,
};

/* From the environment, as a missing feature may be needed before cuInit(). */
static enum log_level log_level(void)
{
	enum log_level level = (enum log_level)atomic_load(&driver.logging);

	if (level == LOG_UNKNOWN) {
		const char *asked = getenv("METE_SIM_LOG");
		uint64_t on;

		if (!asked || !*asked || settings_parse_switch(asked, &on) < 0)
			level = LOG_LACKS;
		else
			level = on ? LOG_ALL : LOG_NOTHING;
		atomic_store(&driver.logging, (int)level);
	}
	return level;
}

/* True for the first LACKS_MOST different texts, once each. */
static bool lack_is_new(const char *text)
{
	uint64_t hash = hash_text(HASH_BEGIN, text);
	bool fresh = true;

	pthread_mutex_lock(&driver.saying);
	for (unsigned i = 0; i < driver.n_lacks; i++)
		fresh = fresh && driver.lacks[i] != hash;
	fresh = fresh && driver.n_lacks < LACKS_MOST;
	if (fresh)
		driver.lacks[driver.n_lacks++] = hash;
	pthread_mutex_unlock(&driver.saying);
	return fresh;
}

static void log_line(enum log_level wanted, const char *format, va_list arguments)
{
	char text[600] = "mete-sim: ";
	enum log_level level = log_level();
	int n;

	if (level < wanted)
		return;
	n = vsnprintf(text + 10, sizeof(text) - 12, format, arguments);
	if (n < 0 || (level < LOG_ALL && !lack_is_new(text)))
		return;
	strcat(text, "\n");
	best_effort(write(STDERR_FILENO, text, strlen(text)));
}

void driver_log(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	log_line(LOG_ALL, format, arguments);
	va_end(arguments);
}

void driver_lacks(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	log_line(LOG_LACKS, format, arguments);
	va_end(arguments);
}

CUresult driver_missing(const char *symbol)
{
	driver_lacks("%s is not simulated", symbol);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* The lock is held. */
static CUresult driver_start(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	int r = segment_join();

	if (r == -ENODEV)
		return CUDA_ERROR_NO_DEVICE;
	if (r < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (device_show(visible) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	if (device_count() == 0)
		return CUDA_ERROR_NO_DEVICE;
	if (!driver.handler_set && pthread_atfork(NULL, NULL, in_child) == 0)
		driver.handler_set = true;
	atomic_store_explicit(&driver.state, DRIVER_READY, memory_order_release);
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
	CUresult r;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (driver_thread.callbacks)
		return CUDA_ERROR_NOT_PERMITTED;
	if (atomic_load(&driver.state) == DRIVER_FORKED)
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&driver.starting);
	r = atomic_load(&driver.state) == DRIVER_READY ? CUDA_SUCCESS : driver_start();
	pthread_mutex_unlock(&driver.starting);
	return r;
}

int driver_version(void)
{
	static _Atomic int version, guess;
	int known = atomic_load(&version);
	uint64_t setting;
	struct fault why;

	if (known)
		return known;
	if (atomic_load(&driver.state) == DRIVER_READY) {
		known = (int)segment_settings()->driver;
		atomic_store(&version, known);
		return known;
	}
	/* May be asked before cuInit(): then from the environment. */
	known = atomic_load(&guess);
	if (!known) {
		known = settings_read("driver", &setting, &why) == 0 ? (int)setting : 12090;
		atomic_store(&guess, known);
	}
	return known;
}

CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = driver_version();
	return CUDA_SUCCESS;
}

/* ---- words for results ----------------------------------------------------------------------- */

static const struct {
	CUresult result;
	const char *name, *text;
} driver_errors[] = {
#define CUDA_RESULT(name, number, text) {name, #name, text},
#include "cuda/errors.def"
#undef CUDA_RESULT
};

static CUresult error_word(CUresult error, const char **ret_word, bool name)
{
	if (!ret_word)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < ARRAY_SIZE(driver_errors); i++) {
		if (driver_errors[i].result == error) {
			*ret_word = name ? driver_errors[i].name : driver_errors[i].text;
			return CUDA_SUCCESS;
		}
	}
	*ret_word = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **word)
{
	return error_word(error, word, true);
}

CUresult cuGetErrorString(CUresult error, const char **word)
{
	return error_word(error, word, false);
}

/* ---- what has no effect here ----------------------------------------------------------------- */

CUresult cuProfilerStart(void)
{
	return driver_ready();
}

CUresult cuProfilerStop(void)
{
	return driver_ready();
}

CUresult cuProfilerInitialize(const char *config, const char *output, CUoutput_mode mode)
{
	(void)config, (void)output, (void)mode;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
				    CUflushGPUDirectRDMAWritesScope scope)
{
	(void)target, (void)scope;
	return driver_ready();
}
