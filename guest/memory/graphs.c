/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts/devices.h"
#include "guest/memory/graphs.h"
#include "guest/process/join.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <sys/mman.h>

#include "guest/credit/charge.h"
#include "guest/credit/credit.h"
#include "guest/credit/pointers.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/driver_lock.h"
#include "guest/futex.h"
#include "guest/hooks.h"
#include "guest/movable/movable.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/time/capture.h"
#include "guest/time/presence.h"

enum {
	EXECS = 4096, /* executable graphs with memory nodes; further ones are refused */
	DEPTH = 8,    /* of child graphs */
};

struct exec {
	uint32_t used;
	uint32_t backed_at; /* the number of trims when it was launched: while it is unchanged, its
			       memory exists. 0: never */
	uint64_t bytes[STATE_DEVICES];
};

/* The driver's functions before which graphs.c is inserted. */
#define BETWEEN(X)                                                                                 \
	X(cuGraphInstantiate)                                                                      \
	X(cuGraphInstantiate_v2)                                                                   \
	X(cuGraphInstantiateWithFlags)                                                             \
	X(cuGraphInstantiateWithParams)                                                            \
	X(cuGraphInstantiateWithParams_ptsz)                                                       \
	X(cuGraphExecDestroy)                                                                      \
	X(cuGraphLaunch)                                                                           \
	X(cuGraphLaunch_ptsz)                                                                      \
	X(cuGraphUpload)                                                                           \
	X(cuGraphUpload_ptsz)

static struct {
	_Atomic uint32_t begun;
	struct futex_lock begin_lock;
	struct driver_lock lock; /* of the following; held while the driver launches */
	uint32_t trims;		 /* that released anything so far, + 1 */
	uint64_t charged[STATE_DEVICES];
	struct pointers by_handle; /* detail: the index below */
	struct exec exec[EXECS];
	struct {
#define MEMBER(symbol) api_fn_##symbol *symbol;
		BETWEEN(MEMBER)
#undef MEMBER
	} driver;
} graphs;

/* As driver_nested(). Called through a launch trampoline, the caller's address is in the slot. */
#define nested_between()                                                                           \
	(unlikely(driver_inside) &&                                                                \
	 (real_is_driver(__builtin_return_address(0)) ||                                           \
	  real_is_driver((const void *)(uintptr_t)guest_slot->return_address)))

/* ---- what the driver holds ------------------------------------------------------------------- */

/* With the lock held. Corrects the charge to what the driver holds, which is returned. An increase
 * for which there is no credit stays owed. */
static uint64_t reread(int device)
{
	int ordinal = devices_ordinal(device);
	cuuint64_t holds = 0;

	if (ordinal < 0 ||
	    driver_call(real(cuDeviceGetGraphMemAttribute)(
		    ordinal, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &holds)) != CUDA_SUCCESS)
		return graphs.charged[device];
	if (holds < graphs.charged[device])
		credit_give(device, graphs.charged[device] - holds);
	else if (holds > graphs.charged[device] &&
		 credit_take(device, holds - graphs.charged[device], CREDIT_OWED) != 0)
		return holds;
	graphs.charged[device] = holds;
	if (holds)
		movable_why(WIRE_UNMOVABLE_GRAPH);
	return holds;
}

/* With the lock held. A trim does not touch memory of running graphs, which must not be charged
 * again: so a trim that released nothing does not count. */
static CUresult trim_now(int device, CUdevice ordinal)
{
	uint64_t before = reread(device);
	CUresult r = driver_call(real(cuDeviceGraphMemTrim)(ordinal));

	if (reread(device) < before)
		graphs.trims++;
	return r;
}

static void reread_one(int device)
{
	(void)reread(device);
}

static void trim_one(int device)
{
	int ordinal = devices_ordinal(device);

	if (ordinal >= 0 && !capture_open())
		best_effort(trim_now(device, ordinal));
}

/* A thread that holds the lock settles by itself. */
static bool lock_if_free(void)
{
	return atomic_load(&graphs.begun) && driver_lock_try(&graphs.lock);
}

static void each(int device, void (*what)(int device))
{
	if (!lock_if_free())
		return;
	changes_begin();
	for (int i = 0; i < (int)atomic_load(&state.devices); i++)
		if (device < 0 || device == i)
			what(i);
	changes_end();
	driver_lock_give(&graphs.lock, true);
}

void graphs_settle(int device)
{
	each(device, reread_one);
}

void graphs_trim(int device, uint64_t bytes)
{
	if (credit_unused(device) < bytes)
		each(device, trim_one);
}

/* ---- what a graph may take ------------------------------------------------------------------- */

static void add_node(CUgraphNode node, uint64_t *bytes, int depth);

/* Adds up the memory nodes of a graph by device. The list of nodes is mapped: no malloc in
 * a hook. */
static void add_graph(CUgraph graph, uint64_t *bytes, int depth)
{
	size_t count = 0, size;
	CUgraphNode *nodes;
	int saved = errno;

	if (depth > DEPTH ||
	    driver_call(real(cuGraphGetNodes)(graph, NULL, &count)) != CUDA_SUCCESS || count == 0)
		return;
	size = count * sizeof(CUgraphNode);
	nodes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = saved;
	if (nodes == MAP_FAILED)
		return;
	if (driver_call(real(cuGraphGetNodes)(graph, nodes, &count)) == CUDA_SUCCESS)
		for (size_t i = 0; i < count && i < size / sizeof(CUgraphNode); i++)
			add_node(nodes[i], bytes, depth);
	munmap(nodes, size);
	errno = saved;
}

static void add_node(CUgraphNode node, uint64_t *bytes, int depth)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = 0};
	CUgraphNodeType type;
	CUgraph child;
	int device;

	if (driver_call(real(cuGraphNodeGetType)(node, &type)) != CUDA_SUCCESS)
		return;
	if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
	    driver_call(real(cuGraphChildGraphNodeGetGraph)(node, &child)) == CUDA_SUCCESS)
		add_graph(child, bytes, depth + 1);
	if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
	    driver_call(real(cuGraphMemAllocNodeGetParams)(node, &params)) != CUDA_SUCCESS)
		return;
	device = devices_index(params.poolProps.location.id);
	if (device >= 0)
		bytes[device] += memory_round(params.bytesize);
}

static bool any_bytes(const uint64_t *bytes)
{
	for (int i = 0; i < STATE_DEVICES; i++)
		if (bytes[i])
			return true;
	return false;
}

/* ---- charging -------------------------------------------------------------------------------- */

/* With the lock held. Memory that no graph uses is kept for later launches as long as there is
 * other room. */
static bool charge(int device, uint64_t bytes)
{
	bool room = credit_unused(device) >= bytes || !memory_seems_short(device, bytes);

	if (room && credit_take(device, bytes, CREDIT_SPARE) == 0)
		return true;
	trim_one(device);
	return credit_take(device, bytes, CREDIT_ASK) == 0;
}

/* With the lock held. Charges up to bytes[] in advance. If there is not enough even after trimming,
 * fails if it is `needed`. */
static CUresult prepare(const uint64_t *bytes, bool needed)
{
	for (int i = 0; i < STATE_DEVICES; i++) {
		if (bytes[i] == 0)
			continue;
		(void)reread(i);
		if (charge(i, bytes[i]))
			graphs.charged[i] += bytes[i];
		else if (needed)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static void reread_all(void)
{
	for (int i = 0; i < (int)atomic_load(&state.devices); i++)
		(void)reread(i);
}

/* With the lock held, after prepare(): calls the driver, and settles. A launch reserves all memory
 * of the graph. An upload may or may not: it did if the driver took all that was charged. */
static CUresult carry_out(struct exec *exec, CUgraphExec handle, CUstream stream,
			  CUresult (*driver)(CUgraphExec, CUstream), bool upload)
{
	uint64_t promised[STATE_DEVICES];
	CUresult r;

	memcpy(promised, graphs.charged, sizeof(promised));
	r = driver_call(driver(handle, stream));
	reread_all();
	if (r != CUDA_SUCCESS)
		return r;
	for (int i = 0; i < STATE_DEVICES && upload; i++)
		if (exec->bytes[i] && graphs.charged[i] < promised[i])
			return r;
	exec->backed_at = graphs.trims;
	return r;
}

static CUresult launch(CUgraphExec handle, CUstream stream,
		       CUresult (*driver)(CUgraphExec, CUstream), bool upload, bool nested)
{
	static const uint64_t nothing[STATE_DEVICES];
	struct pointer entry;
	struct exec *exec;
	CUresult r;
	bool mine;

	if (nested || pointers_find(&graphs.by_handle, (uintptr_t)handle, &entry) != 0)
		return driver_call(driver(handle, stream));
	changes_begin();
	mine = driver_lock_take(&graphs.lock);
	exec = &graphs.exec[entry.detail];
	r = prepare(exec->backed_at == graphs.trims ? nothing : exec->bytes, true);
	if (r == CUDA_SUCCESS)
		r = carry_out(exec, handle, stream, driver, upload);
	else
		reread_all();
	driver_lock_give(&graphs.lock, mine);
	changes_end();
	return r;
}

/* With the lock held. Notes an executable graph, so that its launches are charged. false: no room.
 */
static bool note(CUgraphExec handle, const uint64_t *bytes)
{
	struct pointer entry = {.address = (uintptr_t)handle}, old;

	for (uint32_t i = 0; i < EXECS; i++) {
		if (graphs.exec[i].used)
			continue;
		entry.detail = i;
		if (pointers_put(&graphs.by_handle, &entry, &old) < 0)
			return false;
		graphs.exec[i].used = 1;
		graphs.exec[i].backed_at = 0;
		memcpy(graphs.exec[i].bytes, bytes, sizeof(graphs.exec[i].bytes));
		return true;
	}
	return false;
}

/* An instantiation, of a graph whose memory nodes ask for so much. */
struct instantiation {
	uint64_t bytes[STATE_DEVICES];
	bool mine;
};

static void begin_instantiation(CUgraph graph, struct instantiation *q, bool nested)
{
	memset(q, 0, sizeof(*q));
	if (!nested)
		add_graph(graph, q->bytes, 0);
	if (!any_bytes(q->bytes))
		return;
	changes_begin();
	q->mine = driver_lock_take(&graphs.lock);
	best_effort(prepare(q->bytes, false));
}

static CUresult end_instantiation(CUgraphExec *handle, const struct instantiation *q, CUresult r)
{
	if (!any_bytes(q->bytes))
		return r;
	/* A graph that cannot be noted is destroyed: its launches would not be charged. */
	if (r == CUDA_SUCCESS && handle && *handle && !note(*handle, q->bytes)) {
		best_effort(driver_call(graphs.driver.cuGraphExecDestroy(*handle)));
		*handle = NULL;
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	reread_all();
	driver_lock_give(&graphs.lock, q->mine);
	changes_end();
	return r;
}

/* ---- between the trampolines and the driver -------------------------------------------------- */

static CUresult between_cuGraphInstantiate(CUgraphExec *handle, CUgraph graph, CUgraphNode *node,
					   char *log, size_t size)
{
	struct instantiation q;

	begin_instantiation(graph, &q, nested_between());
	return end_instantiation(
		handle, &q,
		driver_call(graphs.driver.cuGraphInstantiate(handle, graph, node, log, size)));
}

static CUresult between_cuGraphInstantiate_v2(CUgraphExec *handle, CUgraph graph, CUgraphNode *node,
					      char *log, size_t size)
{
	struct instantiation q;

	begin_instantiation(graph, &q, nested_between());
	return end_instantiation(
		handle, &q,
		driver_call(graphs.driver.cuGraphInstantiate_v2(handle, graph, node, log, size)));
}

static CUresult between_cuGraphInstantiateWithFlags(CUgraphExec *handle, CUgraph graph,
						    unsigned long long flags)
{
	struct instantiation q;

	begin_instantiation(graph, &q, nested_between());
	return end_instantiation(
		handle, &q,
		driver_call(graphs.driver.cuGraphInstantiateWithFlags(handle, graph, flags)));
}

static CUresult between_cuGraphInstantiateWithParams(CUgraphExec *handle, CUgraph graph,
						     CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	struct instantiation q;

	begin_instantiation(graph, &q, nested_between());
	return end_instantiation(
		handle, &q,
		driver_call(graphs.driver.cuGraphInstantiateWithParams(handle, graph, params)));
}

static CUresult between_cuGraphInstantiateWithParams_ptsz(CUgraphExec *handle, CUgraph graph,
							  CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	struct instantiation q;

	begin_instantiation(graph, &q, nested_between());
	return end_instantiation(handle, &q,
				 driver_call(graphs.driver.cuGraphInstantiateWithParams_ptsz(
					 handle, graph, params)));
}

static CUresult between_cuGraphExecDestroy(CUgraphExec handle)
{
	struct pointer entry;
	CUresult r;
	bool mine;

	if (nested_between() || pointers_take(&graphs.by_handle, (uintptr_t)handle, &entry) != 0)
		return driver_call(graphs.driver.cuGraphExecDestroy(handle));
	changes_begin();
	mine = driver_lock_take(&graphs.lock);
	r = driver_call(graphs.driver.cuGraphExecDestroy(handle));
	if (r == CUDA_SUCCESS) {
		graphs.exec[entry.detail].used = 0;
	} else {
		struct pointer old;

		best_effort(pointers_put(&graphs.by_handle, &entry, &old));
	}
	reread_all();
	driver_lock_give(&graphs.lock, mine);
	changes_end();
	return r;
}

static CUresult between_cuGraphLaunch(CUgraphExec handle, CUstream stream)
{
	return launch(handle, stream, graphs.driver.cuGraphLaunch, false, nested_between());
}

static CUresult between_cuGraphLaunch_ptsz(CUgraphExec handle, CUstream stream)
{
	return launch(handle, stream, graphs.driver.cuGraphLaunch_ptsz, false, nested_between());
}

static CUresult between_cuGraphUpload(CUgraphExec handle, CUstream stream)
{
	return launch(handle, stream, graphs.driver.cuGraphUpload, true, nested_between());
}

static CUresult between_cuGraphUpload_ptsz(CUgraphExec handle, CUstream stream)
{
	return launch(handle, stream, graphs.driver.cuGraphUpload_ptsz, true, nested_between());
}

/* ---- hooks ----------------------------------------------------------------------------------- */

static bool used(void)
{
	return atomic_load_explicit(&graphs.begun, memory_order_relaxed) != 0;
}

void graphs_begin(void)
{
	if (likely(atomic_load_explicit(&graphs.begun, memory_order_acquire)))
		return;
	futex_lock_take(&graphs.begin_lock);
	if (!atomic_load(&graphs.begun)) {
		graphs.trims = 1;
#define INSTALL(symbol)                                                                            \
	graphs.driver.symbol = real_function(symbol);                                              \
	real_between(API_##symbol, (void *)between_##symbol);
		BETWEEN(INSTALL)
#undef INSTALL
		atomic_store_explicit(&graphs.begun, 1, memory_order_release);
	}
	futex_lock_give(&graphs.begin_lock);
}

CUresult hook_cuDeviceGraphMemTrim(CUdevice device)
{
	int index = driver_nested() || !atomic_load(&graphs.begun) ? -1 : devices_index(device);
	CUresult r;
	bool mine;

	if (index < 0)
		return driver_call(real(cuDeviceGraphMemTrim)(device));
	changes_begin();
	/* With the lock: a launch in between would take its memory for existing. */
	mine = driver_lock_take(&graphs.lock);
	r = trim_now(index, device);
	driver_lock_give(&graphs.lock, mine);
	changes_end();
	return r;
}

void graphs_forget(void)
{
	pointers_forget(&graphs.by_handle);
	if (atomic_load(&graphs.begun)) {
		memset(graphs.exec, 0, sizeof(graphs.exec));
		memset(graphs.charged, 0, sizeof(graphs.charged));
	}
	memset(&graphs.lock, 0, sizeof(graphs.lock));
	memset(&graphs.begin_lock, 0, sizeof(graphs.begin_lock));
}

bool graphs_recount(int device)
{
	if (!used())
		return false;
	graphs_settle(device);
	return true;
}
