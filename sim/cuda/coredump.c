/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/coredump.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"

enum { NAME_BYTES = 1024 };

#define SETTINGS (CU_COREDUMP_MAX)

struct coredump_wishes {
	unsigned number[SETTINGS]; /* switches, and the flags */
	char file[NAME_BYTES], pipe[NAME_BYTES];
};

static struct {
	pthread_mutex_t lock; /* the contexts' copies, too */
	bool began;
	struct coredump_wishes all;
} dumps = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_text(CUcoredumpSettings setting)
{
	return setting == CU_COREDUMP_FILE || setting == CU_COREDUMP_PIPE;
}

/* Settings of the process alone. */
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

static char *text_of(struct coredump_wishes *wishes, CUcoredumpSettings setting)
{
	return setting == CU_COREDUMP_FILE ? wishes->file : wishes->pipe;
}

/* ---- the beginning --------------------------------------------------------------------------- */

static const struct {
	CUcoredumpSettings setting;
	const char *name;
	bool normally;
} switches[] = {
	{CU_COREDUMP_ENABLE_ON_EXCEPTION, "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", false},
	{CU_COREDUMP_TRIGGER_HOST, "CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", true},
	{CU_COREDUMP_LIGHTWEIGHT, "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", false},
	{CU_COREDUMP_ENABLE_USER_TRIGGER, "CUDA_ENABLE_USER_TRIGGERED_COREDUMP", false},
};

static const char *variable(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

/* From the environment, as NVIDIA documents it for cuda-gdb. The lock is held. */
static void begin(void)
{
	struct coredump_wishes *all = &dumps.all;
	const char *file = variable("CUDA_COREDUMP_FILE"), *pipe = variable("CUDA_COREDUMP_PIPE");
	char host[256] = "localhost";

	if (dumps.began)
		return;
	dumps.began = true;
	for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
		const char *text = variable(switches[i].name);

		all->number[switches[i].setting] =
			text ? strcmp(text, "0") != 0 : switches[i].normally;
	}
	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = '\0';
	/* An H100's driver (580.159.04) answers "" for a file without a name. */
	snprintf(all->file, NAME_BYTES, "%s", file ? file : "");
	if (pipe)
		snprintf(all->pipe, NAME_BYTES, "%s", pipe);
	else
		snprintf(all->pipe, NAME_BYTES, "corepipe.cuda.%s.%d", host, (int)getpid());
}

bool coredump_begin(struct CUctx_st *context)
{
	struct coredump_wishes *wishes = malloc(sizeof(*wishes));

	if (!wishes)
		return false;
	pthread_mutex_lock(&dumps.lock);
	begin();
	*wishes = dumps.all;
	context->dumps = wishes;
	pthread_mutex_unlock(&dumps.lock);
	return true;
}

void coredump_end(struct CUctx_st *context)
{
	pthread_mutex_lock(&dumps.lock);
	free(take(context->dumps));
	pthread_mutex_unlock(&dumps.lock);
}

/* ---- asking and setting; the lock is held ---------------------------------------------------- */

/* A caller that has room for a text is not told how long it is: *size stays. */
static CUresult tell(struct coredump_wishes *from, CUcoredumpSettings setting, void *value,
		     size_t *size)
{
	size_t need = is_text(setting) ? strlen(text_of(from, setting)) + 1 : bytes_of(setting);
	bool on;

	if (value && *size < need)
		return CUDA_ERROR_INVALID_VALUE;
	if (!value) {
		*size = need;
		return CUDA_SUCCESS;
	}
	on = from->number[setting] != 0;
	if (is_text(setting))
		memcpy(value, text_of(from, setting), need);
	else if (setting == CU_COREDUMP_GENERATION_FLAGS)
		memcpy(value, &from->number[setting], need);
	else
		memcpy(value, &on, need);
	return CUDA_SUCCESS;
}

/* Nothing beyond `*size` is read. */
static CUresult want(struct coredump_wishes *to, CUcoredumpSettings setting, const void *value,
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

/* ---- the functions: of the process, and of the current context ---------------------------- */

/* SUCCESS: *ret_wishes are the process's or the context's own, and the lock is held. */
static CUresult reach(bool own, CUcoredumpSettings setting, struct coredump_wishes **ret_wishes)
{
	struct CUctx_st *context = NULL;
	CUresult result = own ? context_current(&context) : driver_ready();

	if (result != CUDA_SUCCESS)
		return result;
	if (!is_known(setting))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&dumps.lock);
	begin();
	*ret_wishes = own && !is_global(setting) ? context->dumps : &dumps.all;
	if (*ret_wishes)
		return CUDA_SUCCESS;
	pthread_mutex_unlock(&dumps.lock);
	return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult get_of(bool own, CUcoredumpSettings setting, void *value, size_t *size)
{
	struct coredump_wishes *wishes;
	CUresult result = reach(own, setting, &wishes);

	if (result != CUDA_SUCCESS)
		return result;
	result = size ? tell(wishes, setting, value, size) : CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&dumps.lock);
	return result;
}

static CUresult set_of(bool own, CUcoredumpSettings setting, const void *value, const size_t *size)
{
	struct coredump_wishes *wishes;
	CUresult result = reach(own, setting, &wishes);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || !size || (own && is_global(setting)))
		result = CUDA_ERROR_INVALID_VALUE;
	else
		result = want(wishes, setting, value, size);
	pthread_mutex_unlock(&dumps.lock);
	return result;
}

exported CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings get, void *value, size_t *size)
{
	return get_of(false, get, value, size);
}

exported CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings set, void *value, size_t *size)
{
	return set_of(false, set, value, size);
}

exported CUresult cuCoredumpGetAttribute(CUcoredumpSettings get, void *value, size_t *size)
{
	return get_of(true, get, value, size);
}

exported CUresult cuCoredumpSetAttribute(CUcoredumpSettings set, void *value, size_t *size)
{
	return set_of(true, set, value, size);
}
