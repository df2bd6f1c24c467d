/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program wants of core dumps: kept and told, for the process and for each context. None is
 * ever written; who switches them on is told so.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cuda/prototypes.h"
#include "sim/context.h"
#include "sim/driver.h"

enum { NAME_BYTES = 1024 };

#define SETTINGS (CU_COREDUMP_MAX)

struct wanted {
	unsigned number[SETTINGS]; /* switches, and the flags */
	char file[NAME_BYTES], pipe[NAME_BYTES];
};

/* What differs from the process's in one life of a context; the struct of the context stays. */
struct own {
	struct own *next;
	const struct CUctx_st *context;
	uint64_t id;
	bool set[SETTINGS];
	struct wanted wanted;
};

static struct {
	pthread_mutex_t lock;
	bool began;
	struct wanted all;
	struct own *own;
} dumps = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_text(CUcoredumpSettings setting)
{
	return setting == CU_COREDUMP_FILE || setting == CU_COREDUMP_PIPE;
}

/* Of the process alone. */
static bool is_global(CUcoredumpSettings setting)
{
	return setting == CU_COREDUMP_ENABLE_USER_TRIGGER || setting == CU_COREDUMP_PIPE;
}

static bool is_known(CUcoredumpSettings setting)
{
	return setting >= CU_COREDUMP_ENABLE_ON_EXCEPTION && setting < CU_COREDUMP_MAX;
}

static size_t bytes_of(CUcoredumpSettings setting)
{
	if (is_text(setting))
		return NAME_BYTES;
	return setting == CU_COREDUMP_GENERATION_FLAGS ? sizeof(unsigned) : sizeof(bool);
}

static char *text_of(struct wanted *wanted, CUcoredumpSettings setting)
{
	return setting == CU_COREDUMP_FILE ? wanted->file : wanted->pipe;
}

/* ---- the beginning --------------------------------------------------------------------------- */

static unsigned switch_of(const char *name, bool normally)
{
	const char *text = getenv(name);

	return text && *text ? strcmp(text, "0") != 0 : normally;
}

static void name_of(char to[NAME_BYTES], const char *name, const char *kind)
{
	const char *text = getenv(name);
	char host[256] = "localhost";

	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = '\0';
	if (text && *text)
		snprintf(to, NAME_BYTES, "%s", text);
	else
		snprintf(to, NAME_BYTES, "%s.cuda.%s.%d", kind, host, (int)getpid());
}

/* From the environment, as NVIDIA documents it for cuda-gdb. */
static void begin(void)
{
	struct wanted *all = &dumps.all;

	if (dumps.began)
		return;
	dumps.began = true;
	all->number[CU_COREDUMP_ENABLE_ON_EXCEPTION] =
		switch_of("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", false);
	all->number[CU_COREDUMP_TRIGGER_HOST] =
		switch_of("CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", true);
	all->number[CU_COREDUMP_LIGHTWEIGHT] = switch_of("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", false);
	all->number[CU_COREDUMP_ENABLE_USER_TRIGGER] =
		switch_of("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", false);
	name_of(all->file, "CUDA_COREDUMP_FILE", "core");
	name_of(all->pipe, "CUDA_COREDUMP_PIPE", "corepipe");
}

static struct own *own_find(const struct CUctx_st *context)
{
	struct own *own = dumps.own;

	while (own && own->context != context)
		own = own->next;
	return own && own->id == context->id ? own : NULL;
}

/* NULL: no memory. */
static struct own *own_make(const struct CUctx_st *context)
{
	struct own *own = dumps.own;

	while (own && own->context != context)
		own = own->next;
	if (own && own->id == context->id)
		return own;
	if (!own) {
		own = calloc(1, sizeof(*own));
		if (!own)
			return NULL;
		own->next = dumps.own;
		dumps.own = own;
	}
	memset(own->set, 0, sizeof(own->set));
	own->context = context;
	own->id = context->id;
	return own;
}

/* ---- asking and setting; the lock is held ---------------------------------------------------- */

static CUresult tell(struct wanted *from, CUcoredumpSettings setting, void *value, size_t *size)
{
	size_t need = is_text(setting) ? strlen(text_of(from, setting)) + 1 : bytes_of(setting);
	bool on;

	if (value && *size < need)
		return CUDA_ERROR_INVALID_VALUE;
	*size = need;
	if (!value)
		return CUDA_SUCCESS;
	on = from->number[setting] != 0;
	if (is_text(setting))
		memcpy(value, text_of(from, setting), need);
	else if (setting == CU_COREDUMP_GENERATION_FLAGS)
		memcpy(value, &from->number[setting], need);
	else
		memcpy(value, &on, need);
	return CUDA_SUCCESS;
}

/* Nothing is looked at beyond `*size`. */
static CUresult want(struct wanted *to, CUcoredumpSettings setting, const void *value,
		     const size_t *size)
{
	bool on = false;
	size_t n;

	if (is_text(setting)) {
		n = strnlen(value, *size);
		if (n == 0 || n >= NAME_BYTES)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(text_of(to, setting), value, n);
		text_of(to, setting)[n] = '\0';
		return CUDA_SUCCESS;
	}
	if (*size < bytes_of(setting))
		return CUDA_ERROR_INVALID_VALUE;
	if (setting == CU_COREDUMP_GENERATION_FLAGS) {
		memcpy(&to->number[setting], value, sizeof(unsigned));
		return CUDA_SUCCESS;
	}
	memcpy(&on, value, sizeof(on));
	to->number[setting] = on;
	if (on && (setting == CU_COREDUMP_ENABLE_ON_EXCEPTION ||
		   setting == CU_COREDUMP_ENABLE_USER_TRIGGER))
		driver_lacks("core dumps are switched on, and none is written");
	return CUDA_SUCCESS;
}

exported CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings get, void *value, size_t *size)
{
	CUresult result = driver_ready();

	if (result != CUDA_SUCCESS)
		return result;
	if (!size || !is_known(get))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&dumps.lock);
	begin();
	result = tell(&dumps.all, get, value, size);
	pthread_mutex_unlock(&dumps.lock);
	return result;
}

exported CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings set, void *value, size_t *size)
{
	CUresult result = driver_ready();

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || !size || !is_known(set))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&dumps.lock);
	begin();
	result = want(&dumps.all, set, value, size);
	pthread_mutex_unlock(&dumps.lock);
	return result;
}

exported CUresult cuCoredumpGetAttribute(CUcoredumpSettings get, void *value, size_t *size)
{
	struct CUctx_st *context;
	CUresult result = context_current(&context);
	struct own *own;

	if (result != CUDA_SUCCESS)
		return result;
	if (!size || !is_known(get))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&dumps.lock);
	begin();
	own = own_find(context);
	result = tell(own && own->set[get] ? &own->wanted : &dumps.all, get, value, size);
	pthread_mutex_unlock(&dumps.lock);
	return result;
}

exported CUresult cuCoredumpSetAttribute(CUcoredumpSettings set, void *value, size_t *size)
{
	struct CUctx_st *context;
	CUresult result = context_current(&context);
	struct own *own;

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || !size || !is_known(set) || is_global(set))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&dumps.lock);
	own = own_make(context);
	result = own ? want(&own->wanted, set, value, size) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		own->set[set] = true;
	pthread_mutex_unlock(&dumps.lock);
	return result;
}
