/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects: counted references to an object of the program, which graphs can hold; when the
 * last one is released, the program's function is called.
 */
#include <stdatomic.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/handle.h"

struct CUuserObject_st {
	atomic_uint refs;
	CUhostFn destroy;
	void *data;
};

static void object_unref(CUuserObject object, unsigned count)
{
	if (atomic_fetch_sub(&object->refs, count) != count)
		return;
	handle_remove(HANDLE_USER_OBJECT, object);
	/* As in a host function: the program must not call the driver from it. */
	driver_enter_callback();
	object->destroy(object->data);
	driver_leave_callback();
	free(object);
}

static struct graph_user *find(struct CUgraph_st *graph, const struct CUuserObject_st *object)
{
	list_for_each(link, &graph->users)
	{
		struct graph_user *user = list_entry(link, struct graph_user, link);

		if (user->object == object)
			return user;
	}
	return NULL;
}

/* The program's references pass to the graph. */
static CUresult add(struct CUgraph_st *graph, CUuserObject object, unsigned count)
{
	struct graph_user *user = find(graph, object);

	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return CUDA_ERROR_OUT_OF_MEMORY;
		user->object = object;
		list_append(&graph->users, &user->link);
	}
	user->count += count;
	return CUDA_SUCCESS;
}

void graph_users_free(struct CUgraph_st *graph)
{
	list_for_each(link, &graph->users)
	{
		struct graph_user *user = list_entry(link, struct graph_user, link);

		object_unref(user->object, user->count);
		free(user);
	}
	list_init(&graph->users);
}

CUresult graph_users_clone(const struct CUgraph_st *from, struct CUgraph_st *to)
{
	list_for_each(link, &from->users)
	{
		struct graph_user *user = list_entry(link, struct graph_user, link);
		CUresult result = add(to, user->object, user->count);

		if (result != CUDA_SUCCESS)
			return result;
		atomic_fetch_add(&user->object->refs, user->count);
	}
	return CUDA_SUCCESS;
}

CUresult graph_users_replace(const struct CUgraph_st *from, struct CUgraph_st *to)
{
	struct CUgraph_st held;
	CUresult result;

	memset(&held, 0, sizeof(held));
	list_init(&held.users);
	result = graph_users_clone(from, &held);
	if (result != CUDA_SUCCESS) {
		graph_users_free(&held);
		return result;
	}
	graph_users_free(to);
	list_for_each(link, &held.users)
	{
		list_remove(link);
		list_append(&to->users, link);
	}
	return CUDA_SUCCESS;
}

exported CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
				     unsigned int initialRefcount, unsigned int flags)
{
	struct CUuserObject_st *object;

	if (!object_out || !destroy || !initialRefcount || initialRefcount > INT32_MAX ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	object = calloc(1, sizeof(*object));
	if (!object || handle_add(HANDLE_USER_OBJECT, object) < 0) {
		free(object);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	atomic_init(&object->refs, initialRefcount);
	object->destroy = destroy;
	object->data = ptr;
	*object_out = object;
	return CUDA_SUCCESS;
}

static bool valid(CUuserObject object, unsigned count)
{
	return handle_is(HANDLE_USER_OBJECT, object) && count && count <= INT32_MAX;
}

exported CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	if (!valid(object, count))
		return CUDA_ERROR_INVALID_VALUE;
	atomic_fetch_add(&object->refs, count);
	return CUDA_SUCCESS;
}

exported CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	if (!valid(object, count) || atomic_load(&object->refs) < count)
		return CUDA_ERROR_INVALID_VALUE;
	object_unref(object, count);
	return CUDA_SUCCESS;
}

exported CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
					  unsigned int flags)
{
	CUresult result;

	if (!graph_is(graph) || !valid(object, count) ||
	    flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	result = add(graph, object, count);
	if (result == CUDA_SUCCESS && !(flags & CU_GRAPH_USER_OBJECT_MOVE))
		atomic_fetch_add(&object->refs, count);
	return result;
}

exported CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	struct graph_user *user;

	if (!graph_is(graph) || !valid(object, count))
		return CUDA_ERROR_INVALID_VALUE;
	user = find(graph, object);
	if (!user || user->count < count)
		return CUDA_ERROR_INVALID_VALUE;
	user->count -= count;
	if (!user->count) {
		list_remove(&user->link);
		free(user);
	}
	object_unref(object, count);
	return CUDA_SUCCESS;
}
