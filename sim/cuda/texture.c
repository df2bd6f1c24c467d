/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects: made, described, and destroyed. Nothing reads through them: code
 * with a texture instruction is refused, by name, when its module is loaded.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "cuda/prototypes.h"
#include "sim/cuda/context.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/space.h"

struct object {
	struct list link;
	unsigned long long number; /* the program's handle */
	bool surface;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUDA_RESOURCE_VIEW_DESC view;
};

static struct {
	pthread_mutex_t lock;
	struct list all;
	unsigned long long next;
} objects = {.lock = PTHREAD_MUTEX_INITIALIZER};

static CUresult resource_check(const CUDA_RESOURCE_DESC *resource, bool surface)
{
	switch ((int)resource->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return handle_is(HANDLE_ARRAY, resource->res.array.hArray)
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_HANDLE;
	case CU_RESOURCE_TYPE_LINEAR:
		return !surface && space_covers(resource->res.linear.devPtr,
						resource->res.linear.sizeInBytes)
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	case CU_RESOURCE_TYPE_PITCH2D:
		return !surface && resource->res.pitch2D.width && resource->res.pitch2D.height &&
				       space_covers(resource->res.pitch2D.devPtr, 1)
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		if (surface)
			return CUDA_ERROR_INVALID_VALUE;
		return handle_is(HANDLE_MIPMAP, resource->res.mipmap.hMipmappedArray)
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_HANDLE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult object_new(unsigned long long *ret_number, const CUDA_RESOURCE_DESC *resource,
			   const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view)
{
	struct CUctx_st *context;
	struct object *object;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_number || !resource)
		return CUDA_ERROR_INVALID_VALUE;
	r = resource_check(resource, !texture);
	if (r != CUDA_SUCCESS)
		return r;
	object = calloc(1, sizeof(*object));
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->surface = !texture;
	object->resource = *resource;
	if (texture)
		object->texture = *texture;
	if (view)
		object->view = *view;
	pthread_mutex_lock(&objects.lock);
	if (!objects.all.next)
		list_init(&objects.all);
	object->number = ++objects.next;
	list_append(&objects.all, &object->link);
	pthread_mutex_unlock(&objects.lock);
	*ret_number = object->number;
	return CUDA_SUCCESS;
}

/* The lock is held. */
static struct object *object_find(unsigned long long number, bool surface)
{
	if (!objects.all.next)
		return NULL;
	list_for_each(link, &objects.all)
	{
		struct object *object = list_entry(link, struct object, link);

		if (object->number == number && object->surface == surface)
			return object;
	}
	return NULL;
}

static CUresult object_end(unsigned long long number, bool surface)
{
	struct object *object;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&objects.lock);
	object = object_find(number, surface);
	if (object)
		list_remove(&object->link);
	pthread_mutex_unlock(&objects.lock);
	free(object);
	return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Copies `bytes` from `offset` of the object. */
static CUresult object_tell(unsigned long long number, bool surface, size_t offset, void *ret,
			    size_t bytes)
{
	struct object *object;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&objects.lock);
	object = object_find(number, surface);
	if (object)
		memcpy(ret, (const char *)object + offset, bytes);
	pthread_mutex_unlock(&objects.lock);
	return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectCreate(CUtexObject *ret_object, const CUDA_RESOURCE_DESC *resource,
			   const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view)
{
	return texture ? object_new(ret_object, resource, texture, view) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectDestroy(CUtexObject object)
{
	return object_end(object, false);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUtexObject object)
{
	return object_tell(object, false, offsetof(struct object, resource), resource,
			   sizeof(*resource));
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *texture, CUtexObject object)
{
	return object_tell(object, false, offsetof(struct object, texture), texture,
			   sizeof(*texture));
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *view, CUtexObject object)
{
	return object_tell(object, false, offsetof(struct object, view), view, sizeof(*view));
}

CUresult cuSurfObjectCreate(CUsurfObject *ret_object, const CUDA_RESOURCE_DESC *resource)
{
	return object_new(ret_object, resource, NULL, NULL);
}

CUresult cuSurfObjectDestroy(CUsurfObject object)
{
	return object_end(object, true);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUsurfObject object)
{
	return object_tell(object, true, offsetof(struct object, resource), resource,
			   sizeof(*resource));
}
