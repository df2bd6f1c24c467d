/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/lz4.h"

/* Fat binaries, as NVIDIA's compilers write them. */
#define WRAPPER_MAGIC	0x466243b1u
#define CONTAINER_MAGIC 0xba55ed50u
#define FATBIN_PTX	1
#define FATBIN_ELF	2
#define FATBIN_LZ4	0x2000u
#define FATBIN_ZSTD	0x8000u
#define LARGEST_TEXT	((size_t)256 << 20)

/* The format of image_pack(): this text, the number of texts (32 bits) and the most registers (32
 * bits), then for each text its size, its bytes and its name. */
static const char pack_magic[16] = "mete-sim-linked";

struct fatbin_wrapper {
	uint32_t magic, version;
	const void *data;
	const void *filename;
};

struct fatbin_container {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes;
};

struct fatbin_entry {
	uint16_t kind, version;
	uint32_t header_bytes;
	uint64_t bytes;
	uint32_t packed_bytes, unknown;
	uint32_t unknown2, arch; /* at 28 */
	uint32_t unknown3, unknown4;
	uint64_t flags; /* at 40 */
	uint64_t unknown5;
	uint64_t unpacked_bytes; /* at 56, where the header is long enough */
};

/* ---- a list of texts ------------------------------------------------------------------------- */

CUresult image_add(struct image *image, const char *text, size_t bytes, const char *name)
{
	struct ptx_source *sources;
	struct ptx_source source = {.bytes = bytes ? strnlen(text, bytes) : strlen(text)};
	char *copy;

	if (source.bytes > LARGEST_TEXT)
		return CUDA_ERROR_INVALID_IMAGE;
	sources = reallocarray(image->sources, image->n_sources + 1, sizeof(*sources));
	if (!sources)
		return CUDA_ERROR_OUT_OF_MEMORY;
	image->sources = sources;
	copy = malloc(source.bytes + 1);
	source.name = strdup(name ? name : "PTX");
	if (!copy || !source.name) {
		free(copy);
		free((char *)source.name);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(copy, text, source.bytes);
	copy[source.bytes] = 0;
	source.text = copy;
	image->sources[image->n_sources++] = source;
	return CUDA_SUCCESS;
}

CUresult image_append(struct image *image, struct image *from)
{
	struct ptx_source *sources =
		reallocarray(image->sources, image->n_sources + from->n_sources, sizeof(*sources));

	if (!sources)
		return CUDA_ERROR_OUT_OF_MEMORY;
	image->sources = sources;
	memcpy(sources + image->n_sources, from->sources, from->n_sources * sizeof(*sources));
	image->n_sources += from->n_sources;
	from->n_sources = 0;
	image_done(from);
	return CUDA_SUCCESS;
}

CUresult image_clone(const struct image *image, struct image *ret_image)
{
	struct image copy = {.max_registers = image->max_registers};

	for (size_t i = 0; i < image->n_sources; i++) {
		const struct ptx_source *source = &image->sources[i];
		CUresult r = image_add(&copy, source->text, source->bytes, source->name);

		if (r != CUDA_SUCCESS) {
			image_done(&copy);
			return r;
		}
	}
	*ret_image = copy;
	return CUDA_SUCCESS;
}

void image_done(struct image *image)
{
	for (size_t i = 0; i < image->n_sources; i++) {
		free((char *)image->sources[i].text);
		free((char *)image->sources[i].name);
	}
	free(image->sources);
	memset(image, 0, sizeof(*image));
}

/* ---- reading --------------------------------------------------------------------------------- */

static CUresult entry_read(const struct fatbin_entry *entry, struct image *ret_image)
{
	const char *payload = (const char *)entry + entry->header_bytes;
	uint64_t bytes = entry->header_bytes >= 64 ? entry->unpacked_bytes : 0;
	char *text;
	CUresult r;

	if (entry->flags & FATBIN_ZSTD) {
		driver_lacks("a fat binary's PTX is compressed with zstd, which is not simulated");
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	if (!(entry->flags & FATBIN_LZ4))
		return image_add(ret_image, payload, entry->bytes, "fat binary");
	if (!bytes || bytes > LARGEST_TEXT)
		return CUDA_ERROR_INVALID_IMAGE;
	text = calloc(1, bytes + 1);
	if (!text)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = lz4_unpack(payload, entry->packed_bytes, text, bytes)
		    ? image_add(ret_image, text, bytes, "fat binary")
		    : CUDA_ERROR_INVALID_IMAGE;
	free(text);
	return r;
}

static CUresult container_read(const struct fatbin_container *container, uint32_t capability,
			       struct image *ret_image)
{
	const char *at = (const char *)container + container->header_bytes;
	const char *end = at + container->bytes;
	const struct fatbin_entry *best = NULL;

	while (end - at >= 64) {
		const struct fatbin_entry *entry = (const void *)at;
		uint64_t step = entry->header_bytes + entry->bytes;

		if (entry->header_bytes < 48 || step > (uint64_t)(end - at))
			return CUDA_ERROR_INVALID_IMAGE;
		if (entry->kind == FATBIN_PTX && entry->arch <= capability &&
		    (!best || entry->arch > best->arch))
			best = entry;
		at += step;
	}
	if (!best) {
		driver_lacks("a fat binary holds no PTX for capability %u.%u (machine code alone "
			     "can not be simulated)",
			     capability / 10, capability % 10);
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	return entry_read(best, ret_image);
}

static CUresult pack_read(const char *at, struct image *ret_image)
{
	uint64_t n, bytes;
	CUresult r = CUDA_SUCCESS;

	memcpy(&n, at + sizeof(pack_magic), sizeof(n));
	ret_image->max_registers = (unsigned)(n >> 32);
	n &= UINT32_MAX;
	at += sizeof(pack_magic) + sizeof(n);
	while (n-- && r == CUDA_SUCCESS) {
		memcpy(&bytes, at, sizeof(bytes));
		at += sizeof(bytes);
		r = image_add(ret_image, at, bytes + 1, at + bytes + 1);
		at += bytes + 1 + strlen(at + bytes + 1) + 1;
	}
	return r;
}

CUresult image_read(const void *bytes, uint32_t capability, struct image *ret_image)
{
	struct image image = {0};
	uint32_t magic;
	CUresult r;

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!*(const char *)bytes)
		return CUDA_ERROR_INVALID_IMAGE;
	if (!memcmp(bytes, "\177ELF", 4)) {
		driver_lacks("a cubin is machine code, which can not be simulated: PTX is needed");
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	memcpy(&magic, bytes, sizeof(magic));
	if (magic == WRAPPER_MAGIC) {
		const struct fatbin_wrapper *wrapper = bytes;

		bytes = wrapper->data;
		memcpy(&magic, bytes, sizeof(magic));
	}
	if (magic == CONTAINER_MAGIC)
		r = container_read(bytes, capability, &image);
	else if (!strncmp(bytes, pack_magic, sizeof(pack_magic)))
		r = pack_read(bytes, &image);
	else
		r = image_add(&image, bytes, 0, NULL);
	if (r == CUDA_SUCCESS)
		*ret_image = image;
	else
		image_done(&image);
	return r;
}

CUresult image_read_file(const char *path, uint32_t capability, struct image *ret_image)
{
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat about;
	char *content;
	CUresult r;
	ssize_t n;

	if (fd < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (fstat(fd, &about) < 0 || !S_ISREG(about.st_mode) || about.st_size <= 0 ||
	    (size_t)about.st_size > LARGEST_TEXT)
		return CUDA_ERROR_INVALID_IMAGE;
	content = calloc(1, (size_t)about.st_size + 64); /* room for a header's look-ahead */
	if (!content)
		return CUDA_ERROR_OUT_OF_MEMORY;
	n = read(fd, content, (size_t)about.st_size);
	r = n == about.st_size ? image_read(content, capability, ret_image)
			       : CUDA_ERROR_OPERATING_SYSTEM;
	free(content);
	return r;
}

CUresult image_pack(const struct image *image, void **ret_bytes, size_t *ret_size)
{
	size_t size = sizeof(pack_magic) + sizeof(uint64_t);
	uint64_t n = image->n_sources | (uint64_t)image->max_registers << 32;
	char *bytes, *at;

	for (size_t i = 0; i < image->n_sources; i++)
		size += sizeof(uint64_t) + image->sources[i].bytes + 1 +
			strlen(image->sources[i].name) + 1;
	bytes = at = malloc(size);
	if (!bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	at = mempcpy(at, pack_magic, sizeof(pack_magic));
	at = mempcpy(at, &n, sizeof(n));
	for (size_t i = 0; i < image->n_sources; i++) {
		uint64_t length = image->sources[i].bytes;

		at = mempcpy(at, &length, sizeof(length));
		at = mempcpy(at, image->sources[i].text, length + 1);
		at = mempcpy(at, image->sources[i].name, strlen(image->sources[i].name) + 1);
	}
	*ret_bytes = bytes;
	*ret_size = size;
	return CUDA_SUCCESS;
}
