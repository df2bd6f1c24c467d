/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tests/system/sim/node.h"

TEST(every_linear_route_keeps_the_bytes)
{
	CUcontext context = node_context();
	unsigned char in[3000], out[3000];
	CUdeviceptr a, b;
	CUstream stream;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 7);
	expect_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	expect_ok(cuMemAlloc_v2(&a, 4096));
	expect_ok(cuMemAlloc_v2(&b, 5 * MiB));
	expect_ok(cuMemcpyHtoD_v2(a, in, sizeof(in)));
	expect_ok(cuMemcpyDtoD_v2(b + 3 * MiB, a, sizeof(in)));
	expect_ok(cuCtxSynchronize());
	expect_ok(cuMemcpyDtoDAsync_v2(b + MiB - 10, b + 3 * MiB, sizeof(in), stream));
	expect_ok(cuMemcpyPeerAsync(a, context, b + MiB - 10, context, sizeof(in), stream));
	expect_ok(cuMemcpyAsync(b, a, sizeof(in), stream));
	expect_ok(cuMemcpyDtoHAsync_v2(out, b, sizeof(in), stream));
	expect_ok(cuStreamSynchronize(stream));
	expect_eq(memcmp(in, out, sizeof(in)), 0);
	memset(out, 0, sizeof(out));
	expect_ok(cuMemcpy((uintptr_t)out, a, sizeof(in)));
	expect_eq(memcmp(in, out, sizeof(in)), 0);
	memset(out, 0, sizeof(out));
	expect_ok(cuMemcpy((uintptr_t)out, (uintptr_t)in, sizeof(in)));
	expect_eq(memcmp(in, out, sizeof(in)), 0);
	expect_ok(cuStreamDestroy_v2(stream));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(a_pageable_source_has_been_read_when_the_call_returns)
{
	CUcontext context = node_context();
	size_t bytes = 3 * MiB;
	char *memory = malloc(bytes), *out = malloc(bytes);
	CUdeviceptr address, gate;
	CUstream stream;
	unsigned open = 1;

	expect_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	expect_ok(cuMemAlloc_v2(&address, bytes));
	expect_ok(cuMemAlloc_v2(&gate, 4));
	expect_ok(cuMemsetD32_v2(gate, 0, 1));
	expect_ok(cuCtxSynchronize());
	/* The stream does not get to the copy before the source has changed. */
	expect_ok(cuStreamWaitValue32_v2(stream, gate, 1, CU_STREAM_WAIT_VALUE_EQ));
	memset(memory, 1, 4096);
	expect_ok(cuMemcpyHtoDAsync_v2(address, memory, 4096, stream));
	memset(memory, 2, 4096);
	expect_ok(cuMemcpyHtoD_v2(gate, &open, 4));
	expect_ok(cuStreamSynchronize(stream));
	expect_ok(cuMemcpyDtoH_v2(out, address, 4096));
	expect_eq(out[0], 1);
	expect_eq(out[4095], 1);
	memset(memory, 3, bytes); /* a large one is waited for */
	expect_ok(cuMemcpyHtoDAsync_v2(address, memory, bytes, stream));
	memset(memory, 4, bytes);
	expect_ok(cuStreamSynchronize(stream));
	expect_ok(cuMemcpyDtoH_v2(out, address, bytes));
	expect_eq(out[bytes - 1], 3);
	free(memory);
	free(out);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(copies_beyond_an_allocation_are_refused)
{
	CUcontext context = node_context();
	char bytes[2048];
	CUdeviceptr address;

	memset(bytes, 0, sizeof(bytes));
	expect_ok(cuMemAlloc_v2(&address, 1024));
	expect_cuda(cuMemcpyHtoD_v2(address, bytes, 1025), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemcpyDtoH_v2(bytes, address + 1024, 1), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemcpyDtoD_v2(address, (uintptr_t)bytes, 8), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemcpyHtoD_v2(0, bytes, 8), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemsetD8_v2(address + 1000, 0, 100), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMemsetD32_v2(address + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemcpyHtoD_v2(address, bytes, 0));
	expect_ok(cuMemsetD8_v2(address, 0, 0));
	expect_ok(cuCtxSynchronize());
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(sets_of_every_width_touch_their_elements_only)
{
	CUcontext context = node_context();
	unsigned char out[256];
	CUdeviceptr address;

	expect_ok(cuMemAlloc_v2(&address, 256));
	expect_ok(cuMemsetD8_v2(address, 0, 256));
	expect_ok(cuMemsetD8_v2(address + 1, 0x11, 2));
	expect_ok(cuMemsetD16_v2(address + 8, 0x2233, 2));
	expect_ok(cuMemsetD32_v2(address + 16, 0x44556677, 1));
	expect_ok(cuMemsetD2D8_v2(address + 32, 16, 0x88, 3, 2));
	expect_ok(cuMemsetD2D16Async(address + 64, 16, 0x99aa, 2, 2, NULL));
	expect_ok(cuMemsetD2D32_v2(address + 96, 16, 0xbbccddee, 1, 2));
	expect_cuda(cuMemsetD2D32_v2(address + 96, 2, 0, 2, 2), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMemcpyDtoH_v2(out, address, 256));
	expect_eq(out[0], 0);
	expect_eq(out[1], 0x11);
	expect_eq(out[3], 0);
	expect_eq(out[8], 0x33);
	expect_eq(out[11], 0x22);
	expect_eq(out[12], 0);
	expect_eq(out[16], 0x77);
	expect_eq(out[20], 0);
	expect_eq(out[34], 0x88);
	expect_eq(out[35], 0);
	expect_eq(out[50], 0x88);
	expect_eq(out[51], 0);
	expect_eq(out[64], 0xaa);
	expect_eq(out[83], 0x99);
	expect_eq(out[84], 0);
	expect_eq(out[115], 0xbb);
	expect_eq(out[116], 0);
	expect_ok(cuCtxDestroy_v2(context));
}

static CUDA_MEMCPY2D rows(CUdeviceptr device, size_t pitch, void *host, size_t host_pitch,
			  bool to_device, size_t width, size_t height)
{
	CUDA_MEMCPY2D copy = {.WidthInBytes = width, .Height = height};

	copy.srcMemoryType = to_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	copy.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	copy.srcHost = copy.dstHost = host;
	copy.srcDevice = copy.dstDevice = device;
	copy.srcPitch = to_device ? host_pitch : pitch;
	copy.dstPitch = to_device ? pitch : host_pitch;
	return copy;
}

TEST(rows_go_where_the_pitches_say)
{
	CUcontext context = node_context();
	unsigned char in[10][20], out[10][20];
	CUDA_MEMCPY2D copy;
	CUdeviceptr address;
	size_t pitch;

	memset(out, 0, sizeof(out));
	for (int y = 0; y < 10; y++)
		for (int x = 0; x < 20; x++)
			in[y][x] = (unsigned char)(y * 20 + x + 1);
	expect_ok(cuMemAllocPitch_v2(&address, &pitch, 20, 10, 4));
	copy = rows(address, pitch, in, 20, true, 20, 10);
	expect_ok(cuMemcpy2D_v2(&copy));
	copy = rows(address, pitch, out, 20, false, 5, 3);
	copy.srcXInBytes = 2;
	copy.srcY = 4;
	copy.dstXInBytes = 1;
	copy.dstY = 1;
	expect_ok(cuMemcpy2DUnaligned_v2(&copy));
	for (int y = 0; y < 10; y++)
		for (int x = 0; x < 20; x++)
			expect_eq(out[y][x],
				  y >= 1 && y < 4 && x >= 1 && x < 6 ? in[y + 3][x + 1] : 0);
	copy.srcPitch = 3;
	expect_cuda(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
	copy = rows(address, pitch, out, 20, false, 20, 11);
	expect_cuda(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(rows_from_the_stack_may_change_after_the_call)
{
	CUcontext context = node_context();
	unsigned char frame[64 * 64], out[64 * 64];
	CUDA_MEMCPY2D copy;
	CUdeviceptr address;
	CUstream stream;
	size_t pitch;

	expect_ok(cuStreamCreate(&stream, 0));
	expect_ok(cuMemAllocPitch_v2(&address, &pitch, 64, 64, 4));
	for (int round = 0; round < 50; round++) {
		memset(frame, round, sizeof(frame));
		copy = rows(address, pitch, frame, 64, true, 64, 64);
		expect_ok(cuMemcpy2DAsync_v2(&copy, stream));
		memset(frame, 0xee, sizeof(frame));
		copy = rows(address, pitch, out, 64, false, 64, 64);
		expect_ok(cuMemcpy2DAsync_v2(&copy, stream));
		expect_ok(cuStreamSynchronize(stream));
		for (size_t i = 0; i < sizeof(out); i++)
			expect_eq(out[i], round);
	}
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(boxes_pass_through_arrays)
{
	CUcontext context = node_context();
	CUDA_ARRAY3D_DESCRIPTOR shape = {6, 5, 4, CU_AD_FORMAT_UNSIGNED_INT16, 2, 0}, back;
	unsigned short in[4][5][12], out[4][5][12];
	CUDA_MEMCPY3D copy = {0};
	CUarray array;

	for (int i = 0; i < 4 * 5 * 12; i++)
		((unsigned short *)in)[i] = (unsigned short)(i * 3);
	expect_ok(cuArray3DCreate_v2(&array, &shape));
	expect_ok(cuArray3DGetDescriptor_v2(&back, array));
	expect_eq(back.Depth, 4);
	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = in;
	copy.srcPitch = 24;
	copy.srcHeight = 5;
	copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.dstArray = array;
	copy.WidthInBytes = 24;
	copy.Height = 5;
	copy.Depth = 4;
	expect_ok(cuMemcpy3D_v2(&copy));
	copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.srcArray = array;
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = out;
	copy.dstPitch = 24;
	copy.dstHeight = 5;
	expect_ok(cuMemcpy3D_v2(&copy));
	expect_eq(memcmp(in, out, sizeof(in)), 0);
	copy.Depth = 5;
	expect_cuda(cuMemcpy3D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuArrayDestroy(array));
	expect_cuda(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(arrays_can_be_described_in_two_dimensions)
{
	CUcontext context = node_context();
	CUDA_ARRAY3D_DESCRIPTOR shape = {6, 5, 0, CU_AD_FORMAT_FLOAT, 2, CUDA_ARRAY3D_SURFACE_LDST};
	CUDA_ARRAY_DESCRIPTOR flat;
	CUarray array;

	expect_ok(cuArray3DCreate_v2(&array, &shape));
	expect_ok(cuArrayGetDescriptor_v2(&flat, array));
	expect_eq(flat.Width, 6);
	expect_eq(flat.Height, 5);
	expect_eq(flat.NumChannels, 2);
	expect_eq(flat.Format, CU_AD_FORMAT_FLOAT);
	expect_ok(cuArrayDestroy(array));
	shape.Depth = 1;
	expect_ok(cuArray3DCreate_v2(&array, &shape));
	expect_ok(cuArrayGetDescriptor_v2(&flat, array)); /* without its depth */
	expect_ok(cuArrayDestroy(array));
	expect_ok(cuCtxDestroy_v2(context));
}

static void copy_plane(CUarray array, void *host, size_t width, size_t height, size_t z, bool in)
{
	CUDA_MEMCPY3D copy = {.WidthInBytes = width, .Height = height, .Depth = 1};

	if (in) {
		copy.srcMemoryType = CU_MEMORYTYPE_HOST;
		copy.srcHost = host;
		copy.srcPitch = width;
		copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
		copy.dstArray = array;
		copy.dstZ = z;
	} else {
		copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
		copy.srcArray = array;
		copy.srcZ = z;
		copy.dstMemoryType = CU_MEMORYTYPE_HOST;
		copy.dstHost = host;
		copy.dstPitch = width;
	}
	expect_ok(cuMemcpy3D_v2(&copy));
}

TEST(each_level_of_a_mipmapped_array_is_an_array_of_its_own)
{
	CUcontext context = node_context();
	CUDA_ARRAY3D_DESCRIPTOR shape = {12, 5, 0, CU_AD_FORMAT_FLOAT, 2, 0}, seen;
	static const size_t widths[] = {12, 6, 3, 1}, heights[] = {5, 2, 1, 1};
	float in[4][12 * 5 * 2], out[12 * 5 * 2];
	size_t before = node_free_bytes();
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
	CUDA_TEXTURE_DESC texture = {0};
	CUDA_ARRAY_SPARSE_PROPERTIES sparse;
	CUarray level[4], again;
	CUmipmappedArray mipmap;
	CUtexObject object;

	/* As many as there can be, where more are asked for. */
	expect_ok(cuMipmappedArrayCreate(&mipmap, &shape, 9));
	expect(node_free_bytes() < before);
	expect_cuda(cuMipmappedArrayGetLevel(&again, mipmap, 4), CUDA_ERROR_INVALID_VALUE);
	for (unsigned i = 0; i < 4; i++) {
		expect_ok(cuMipmappedArrayGetLevel(&level[i], mipmap, i));
		expect_ok(cuArray3DGetDescriptor_v2(&seen, level[i]));
		expect_eq(seen.Width, widths[i]);
		expect_eq(seen.Height, heights[i]);
		expect_eq(seen.Depth, 0);
		for (size_t k = 0; k < ARRAY_SIZE(in[i]); k++)
			in[i][k] = (float)(i * 1000 + k);
		copy_plane(level[i], in[i], widths[i] * 8, heights[i], 0, true);
	}
	for (unsigned i = 0; i < 4; i++) {
		copy_plane(level[i], out, widths[i] * 8, heights[i], 0, false);
		expect_eq(memcmp(in[i], out, widths[i] * 8 * heights[i]), 0);
	}
	expect_ok(cuMipmappedArrayGetLevel(&again, mipmap, 2));
	expect(again == level[2]);
	expect_cuda(cuArrayDestroy(level[2]), CUDA_ERROR_INVALID_HANDLE);
	expect_cuda(cuMipmappedArrayDestroy((CUmipmappedArray)level[2]), CUDA_ERROR_INVALID_HANDLE);
	expect_cuda(cuMipmappedArrayGetSparseProperties(&sparse, mipmap), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuArrayGetSparseProperties(&sparse, level[0]), CUDA_ERROR_INVALID_VALUE);
	resource.res.mipmap.hMipmappedArray = mipmap;
	expect_ok(cuTexObjectCreate(&object, &resource, &texture, NULL));
	expect_ok(cuTexObjectDestroy(object));
	expect_cuda(cuSurfObjectCreate(&object, &resource), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMipmappedArrayDestroy(mipmap));
	expect_cuda(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
	expect_cuda(cuArray3DGetDescriptor_v2(&seen, level[1]), CUDA_ERROR_INVALID_HANDLE);
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(layers_are_as_many_in_each_level)
{
	CUcontext context = node_context();
	CUDA_ARRAY3D_DESCRIPTOR shape = {4, 4, 6, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0}, seen;
	CUmipmappedArray mipmap;
	unsigned char in = 7, out = 0;
	CUarray level;

	expect_ok(cuMipmappedArrayCreate(&mipmap, &shape, 0));
	expect_cuda(cuMipmappedArrayGetLevel(&level, mipmap, 1), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuMipmappedArrayDestroy(mipmap));
	expect_ok(cuMipmappedArrayCreate(&mipmap, &shape, 3));
	expect_ok(cuMipmappedArrayGetLevel(&level, mipmap, 1));
	expect_ok(cuArray3DGetDescriptor_v2(&seen, level));
	expect_eq(seen.Depth, 3);
	expect_ok(cuMipmappedArrayDestroy(mipmap));
	shape.Flags = CUDA_ARRAY3D_LAYERED;
	expect_ok(cuMipmappedArrayCreate(&mipmap, &shape, 3));
	expect_ok(cuMipmappedArrayGetLevel(&level, mipmap, 2));
	expect_ok(cuArray3DGetDescriptor_v2(&seen, level));
	expect_eq(seen.Width, 1);
	expect_eq(seen.Depth, 6);
	copy_plane(level, &in, 1, 1, 5, true);
	copy_plane(level, &out, 1, 1, 5, false);
	expect_eq(out, 7);
	/* The end of a context ends its memory, and not its handles. */
	expect_ok(cuCtxDestroy_v2(context));
	expect_ok(cuMipmappedArrayDestroy(mipmap));
	context = node_context();
	shape.NumChannels = 3;
	expect_cuda(cuMipmappedArrayCreate(&mipmap, &shape, 3), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuMipmappedArrayCreate(&mipmap, NULL, 3), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(per_thread_names_use_the_threads_own_stream)
{
	CUcontext context = node_context();
	CUdeviceptr address;
	unsigned in = 5, out = 0;

	expect_ok(cuMemAlloc_v2(&address, 4));
	expect_ok(cuMemcpyHtoD_v2_ptds(address, &in, 4));
	expect_ok(cuMemcpyDtoHAsync_v2_ptsz(&out, address, 4, NULL));
	expect_ok(cuStreamSynchronize_ptsz(NULL));
	expect_eq(out, 5);
	expect_ok(cuCtxDestroy_v2(context));
}
