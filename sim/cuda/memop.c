/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/memop.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "cuda/prototypes.h"
#include "sim/machine/clock.h"
#include "sim/cuda/context.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/space.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/stream_core.h"

enum {
	POLL_FIRST_NS = 10 * 1000,
	POLL_LONGEST_NS = 500 * 1000,
};

struct word {
	CUdeviceptr address;
	unsigned bytes; /* 4 or 8; 0: the operation touches no memory */
	uint64_t value;
	unsigned flags;
	bool wait;
};

static struct word word_of(const CUstreamBatchMemOpParams *params)
{
	struct word word = {0};

	switch (params->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		word.wait = true;
		word.address = params->waitValue.address;
		word.flags = params->waitValue.flags;
		word.bytes = params->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ? 8 : 4;
		word.value = params->waitValue.value64;
		break;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		word.address = params->writeValue.address;
		word.flags = params->writeValue.flags;
		word.bytes = params->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4;
		word.value = params->writeValue.value64;
		break;
	case CU_STREAM_MEM_OP_BARRIER:
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		break;
	}
	if (word.bytes == 4)
		word.value = (uint32_t)word.value;
	return word;
}

static bool known(const CUstreamBatchMemOpParams *params)
{
	switch (params->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return !(params->waitValue.flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH));
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return !(params->writeValue.flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return params->flushRemoteWrites.flags == 0;
	case CU_STREAM_MEM_OP_BARRIER:
		return params->memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
	}
	return false;
}

/* The use lock of sim/cuda/space.h is the caller's. NULL: not mapped for this context. */
static void *reach(const struct word *word, struct CUctx_st *context)
{
	struct space_range range;

	if (space_lookup(word->address, context->device, atomic_load(&context->peers), &range) < 0)
		return NULL;
	if (word->address + word->bytes > range.base + range.bytes)
		return NULL;
	return (void *)(uintptr_t)(word->address + range.delta); /* NOLINT */
}

/* Memory that the stream's earlier work allocates does not exist yet. */
static bool can_be_named(const struct word *word, struct CUctx_st *context, bool graph)
{
	struct space_range range;
	bool mapped;

	if (space_find(word->address, &range) < 0)
		return graph && graph_memory_covers(word->address, word->bytes);
	if (range.withheld)
		return word->address + word->bytes <= range.base + range.bytes;
	space_use();
	mapped = reach(word, context) != NULL;
	space_unuse();
	return mapped;
}

CUresult memop_check(const CUstreamBatchMemOpParams *params, unsigned count,
		     struct CUctx_st *context, bool graph)
{
	for (unsigned i = 0; i < count; i++) {
		struct word word;

		if (!known(&params[i]))
			return CUDA_ERROR_INVALID_VALUE;
		word = word_of(&params[i]);
		if (!word.bytes)
			continue;
		if (word.address % word.bytes || !can_be_named(&word, context, graph))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult memop_describe(const CUstreamBatchMemOpParams *params, unsigned count, struct op *ret_op)
{
	struct op op = {.kind = OP_MEMOP, .memop.count = count};

	op.memop.params = calloc(count ? count : 1, sizeof(*params));
	if (!op.memop.params)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(op.memop.params, params, count * sizeof(*params));
	*ret_op = op;
	return CUDA_SUCCESS;
}

/* 1: the condition holds. 0: not yet. -1: not mapped. */
static int test_word(const struct word *word, struct CUctx_st *context)
{
	uint64_t seen, wanted = word->value;
	void *at;

	space_use();
	at = reach(word, context);
	if (!at)
		seen = 0;
	else if (word->bytes == 8)
		seen = __atomic_load_n((uint64_t *)at, __ATOMIC_ACQUIRE);
	else
		seen = __atomic_load_n((uint32_t *)at, __ATOMIC_ACQUIRE);
	space_unuse();
	if (!at)
		return -1;
	switch (word->flags & 3) {
	case CU_STREAM_WAIT_VALUE_EQ:
		return seen == wanted;
	case CU_STREAM_WAIT_VALUE_AND:
		return (seen & wanted) != 0;
	case CU_STREAM_WAIT_VALUE_NOR:
		return word->bytes == 8 ? ~(seen | wanted) != 0 : (uint32_t) ~(seen | wanted) != 0;
	default: /* cyclic: so far ahead that the difference has no sign */
		return word->bytes == 8 ? (int64_t)(seen - wanted) >= 0
					: (int32_t)(seen - wanted) >= 0;
	}
}

static CUresult wait_for(const struct word *word, struct CUctx_st *context)
{
	struct timespec pause = {.tv_nsec = POLL_FIRST_NS};

	for (;;) {
		int outcome = test_word(word, context);

		if (outcome > 0)
			return CUDA_SUCCESS;
		if (outcome < 0)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (context_error(context) != CUDA_SUCCESS)
			return context_error(context);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < POLL_LONGEST_NS)
			pause.tv_nsec *= 2;
	}
}

static CUresult write_word(const struct word *word, struct CUctx_st *context)
{
	void *at;

	space_use();
	at = reach(word, context);
	if (at && word->bytes == 8)
		__atomic_store_n((uint64_t *)at, word->value, __ATOMIC_RELEASE);
	else if (at)
		__atomic_store_n((uint32_t *)at, (uint32_t)word->value, __ATOMIC_RELEASE);
	space_unuse();
	return at ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult memop_run(const struct op_memop *memop, struct CUctx_st *context, uint64_t *time_ns)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t now_ns;

	for (unsigned i = 0; i < memop->count && result == CUDA_SUCCESS; i++) {
		struct word word = word_of(&memop->params[i]);

		if (!word.bytes)
			continue;
		result = word.wait ? wait_for(&word, context) : write_word(&word, context);
	}
	now_ns = clock_now_ns();
	if (*time_ns < now_ns)
		*time_ns = now_ns;
	return result;
}

static CUresult submit(CUstream handle, const CUstreamBatchMemOpParams *params, unsigned count)
{
	struct CUstream_st *stream;
	struct op op;
	CUresult result = stream_find(handle, &stream);

	if (result != CUDA_SUCCESS)
		return result;
	result = memop_check(params, count, stream->context, stream_capturing(stream));
	if (result == CUDA_SUCCESS)
		result = memop_describe(params, count, &op);
	return result == CUDA_SUCCESS ? stream_submit(stream, &op) : result;
}

static CUresult submit_wait(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags,
			    CUstreamBatchMemOpType operation)
{
	CUstreamBatchMemOpParams params;

	memset(&params, 0, sizeof(params));
	params.waitValue.operation = operation;
	params.waitValue.address = address;
	params.waitValue.value64 = value;
	params.waitValue.flags = flags;
	return submit(stream, &params, 1);
}

static CUresult submit_write(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags,
			     CUstreamBatchMemOpType operation)
{
	CUstreamBatchMemOpParams params;

	memset(&params, 0, sizeof(params));
	params.writeValue.operation = operation;
	params.writeValue.address = address;
	params.writeValue.value64 = value;
	params.writeValue.flags = flags;
	return submit(stream, &params, 1);
}

exported CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
					 unsigned int flags)
{
	return submit_wait(stream, addr, value, flags, CU_STREAM_MEM_OP_WAIT_VALUE_32);
}

exported CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
					 unsigned int flags)
{
	return submit_wait(stream, addr, value, flags, CU_STREAM_MEM_OP_WAIT_VALUE_64);
}

exported CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
					  unsigned int flags)
{
	return submit_write(stream, addr, value, flags, CU_STREAM_MEM_OP_WRITE_VALUE_32);
}

exported CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
					  unsigned int flags)
{
	return submit_write(stream, addr, value, flags, CU_STREAM_MEM_OP_WRITE_VALUE_64);
}

exported CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
					CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	if (flags || count > 256 || (count && !paramArray))
		return CUDA_ERROR_INVALID_VALUE;
	return submit(stream, paramArray, count);
}

/* Before CUDA 11.7 these needed a module parameter of the kernel driver; they did the same. */
exported CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				      unsigned int flags)
{
	return cuStreamWaitValue32_v2(stream, addr, value, flags);
}

exported CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				      unsigned int flags)
{
	return cuStreamWaitValue64_v2(stream, addr, value, flags);
}

exported CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				       unsigned int flags)
{
	return cuStreamWriteValue32_v2(stream, addr, value, flags);
}

exported CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				       unsigned int flags)
{
	return cuStreamWriteValue64_v2(stream, addr, value, flags);
}

exported CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
				     CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	return cuStreamBatchMemOp_v2(stream, count, paramArray, flags);
}
