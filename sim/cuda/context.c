/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/context.h"

#include "cuda/prototypes.h"
#include "sim/machine/device.h"
#include "sim/machine/faults.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/green_types.h"
#include "sim/cuda/handle.h"

#define CONTEXT_DEPTH 64

static struct {
	pthread_mutex_t lock;
	struct list all; /* ever made */
	bool ready;
	uint64_t next_id;
} contexts = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

static _Thread_local struct {
	struct CUctx_st *stack[CONTEXT_DEPTH];
	size_t depth;
} context_thread;

/* ---- which context --------------------------------------------------------------------------- */

struct CUctx_st *context_top(void)
{
	return context_thread.depth ? context_thread.stack[context_thread.depth - 1] : NULL;
}

struct CUctx_st *context_primary(const struct CUgreenCtx_st *green)
{
	struct CUctx_st *primary = green->primary;

	return atomic_load(&primary->state) == CONTEXT_ALIVE && primary->id == green->life ? primary
											   : NULL;
}

/* The context itself: of a green one, the primary. */
static CUresult context_usable(struct CUctx_st *named, struct CUctx_st **ret_context)
{
	struct CUctx_st *context = named->green ? context_primary(named->green) : named;
	enum faults_kind fault;
	CUresult r;

	if (!context || atomic_load(&named->state) != CONTEXT_ALIVE ||
	    atomic_load(&context->state) != CONTEXT_ALIVE)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	fault = faults_at(FAULTS_CALL, context->device);
	if (fault == FAULTS_LOST || device_is_lost(context->device))
		context_fail(context, CUDA_ERROR_UNKNOWN);
	r = context_error(context);
	if (r == CUDA_SUCCESS)
		*ret_context = context;
	return r;
}

CUresult context_current(struct CUctx_st **ret_context)
{
	struct CUctx_st *context;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	context = context_top();
	return context ? context_usable(context, ret_context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult context_named(CUcontext named, struct CUctx_st **ret_context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!named)
		return context_current(ret_context);
	if (!handle_is(HANDLE_CONTEXT, named))
		return CUDA_ERROR_INVALID_CONTEXT;
	return context_usable(named, ret_context);
}

struct CUgreenCtx_st *context_green(CUcontext named)
{
	const struct CUctx_st *context = named ? named : context_top();

	return context ? context->green : NULL;
}

struct stream_set *context_streams(const struct CUctx_st *context, CUcontext named)
{
	const struct CUgreenCtx_st *green = context_green(named);

	return green ? green->streams : context->streams;
}

void context_fail(struct CUctx_st *context, CUresult error)
{
	CUresult none = CUDA_SUCCESS;

	if (error == CUDA_SUCCESS)
		return;
	if (atomic_compare_exchange_strong(&context->error, &none, error))
		driver_log("context %llu on device %d has failed with error %d",
			   (unsigned long long)context->id, context->device, (int)error);
}

void context_visit(void (*each)(struct CUctx_st *context, void *data), void *data)
{
	pthread_mutex_lock(&contexts.lock);
	if (contexts.ready) {
		list_for_each(link, &contexts.all)
		{
			struct CUctx_st *context = list_entry(link, struct CUctx_st, link);

			if (atomic_load(&context->state) == CONTEXT_ALIVE)
				each(context, data);
		}
	}
	pthread_mutex_unlock(&contexts.lock);
}

/* ---- their list ------------------------------------------------------------------------------ */

void context_list(struct CUctx_st *context)
{
	pthread_mutex_lock(&contexts.lock);
	if (!contexts.ready) {
		list_init(&contexts.all);
		contexts.ready = true;
	}
	list_append(&contexts.all, &context->link);
	pthread_mutex_unlock(&contexts.lock);
}

void context_begin_life(struct CUctx_st *context)
{
	pthread_mutex_lock(&contexts.lock);
	context->id = ++contexts.next_id;
	pthread_mutex_unlock(&contexts.lock);
}

/* ---- the thread's stack ---------------------------------------------------------------------- */

CUresult context_push(struct CUctx_st *context)
{
	if (context_thread.depth == CONTEXT_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context_thread.stack[context_thread.depth++] = context;
	return CUDA_SUCCESS;
}

bool context_exists(CUcontext context)
{
	return handle_is(HANDLE_CONTEXT, context) &&
	       atomic_load(&context->state) != CONTEXT_DESTROYED;
}

void context_pop(const struct CUctx_st *context)
{
	if (context_top() == context)
		context_thread.depth--;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	return context_exists(context) ? context_push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPopCurrent_v2(CUcontext *ret_context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!context_thread.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (ret_context)
		*ret_context = context_top();
	context_thread.depth--;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (context && !context_exists(context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context_thread.depth)
		context_thread.depth--;
	return context ? context_push(context) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ret_context)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_context)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_context = context_top();
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
	return cuCtxPushCurrent_v2(context);
}

CUresult cuCtxPopCurrent(CUcontext *ret_context)
{
	return cuCtxPopCurrent_v2(ret_context);
}
