/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/nvidia/features.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct writer {
	void (*each)(void *owner, const char *key, const char *value);
	void *owner;
};

static bool is_outer(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_inner(char c)
{
	return is_outer(c) || c == '-' || c == '_' || c == '.';
}

/* Keeps only signs that Kubernetes accepts: another one would cost the node all its labels. Spaces,
 * with what is left out between them, are one "-". */
static void add(const struct writer *w, const char *key, const char *format, ...) printf_like(3, 4);
static void add(const struct writer *w, const char *key, const char *format, ...)
{
	char text[256], value[FEATURE_VALUE];
	bool apart = false;
	size_t n = 0;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	for (const char *at = text; *at && n < sizeof(value) - 1; at++) {
		if (n && apart && is_inner(*at) && n < sizeof(value) - 2)
			value[n++] = '-';
		if (n ? is_inner(*at) : is_outer(*at))
			value[n++] = *at;
		apart = *at == ' ' || (apart && !is_inner(*at));
	}
	while (n && !is_outer(value[n - 1]))
		n--;
	value[n] = '\0';
	w->each(w->owner, key, value);
}

static void add_driver(const struct writer *w, const struct features *f)
{
	char part[3][32] = {"", "", ""};

	if (!*f->driver)
		return;
	sscanf(f->driver, "%31[^.].%31[^.].%31s", part[0], part[1], part[2]);
	add(w, "nvidia.com/cuda.driver.major", "%s", part[0]);
	add(w, "nvidia.com/cuda.driver.minor", "%s", part[1]);
	add(w, "nvidia.com/cuda.driver.rev", "%s", part[2]);
	add(w, "nvidia.com/cuda.driver-version.major", "%s", part[0]);
	add(w, "nvidia.com/cuda.driver-version.minor", "%s", part[1]);
	add(w, "nvidia.com/cuda.driver-version.revision", "%s", part[2]);
	add(w, "nvidia.com/cuda.driver-version.full", "%s", f->driver);
}

static void add_cuda(const struct writer *w, const struct features *f)
{
	int major = f->cuda / 1000, minor = f->cuda % 1000 / 10;

	if (!f->cuda)
		return;
	add(w, "nvidia.com/cuda.runtime.major", "%d", major);
	add(w, "nvidia.com/cuda.runtime.minor", "%d", minor);
	add(w, "nvidia.com/cuda.runtime-version.major", "%d", major);
	add(w, "nvidia.com/cuda.runtime-version.minor", "%d", minor);
	add(w, "nvidia.com/cuda.runtime-version.full", "%d.%d", major, minor);
}

static const char *family_of(int major, int minor)
{
	static const char *const families[] = {
		[1] = "tesla",	    [2] = "fermi",	[3] = "kepler",
		[5] = "maxwell",    [6] = "pascal",	[9] = "hopper",
		[10] = "blackwell", [12] = "blackwell", [13] = "rubin"};

	if (major == 7)
		return minor < 5 ? "volta" : "turing";
	if (major == 8)
		return minor < 9 ? "ampere" : "ada-lovelace";
	if (major > 0 && major < (int)ARRAY_SIZE(families) && families[major])
		return families[major];
	return "undefined";
}

/* Of the GPUs themselves, however they are divided. */
static void add_architecture(const struct writer *w, const struct features *f)
{
	if (!f->cc_major)
		return;
	add(w, "nvidia.com/gpu.family", "%s", family_of(f->cc_major, f->cc_minor));
	add(w, "nvidia.com/gpu.compute.major", "%d", f->cc_major);
	add(w, "nvidia.com/gpu.compute.minor", "%d", f->cc_minor);
}

static void add_gpu(const struct writer *w, const struct features *f)
{
	bool shared = f->replicas > 1;

	add(w, "nvidia.com/gpu.product", "%s%s", f->model, shared && !f->renamed ? "-SHARED" : "");
	add(w, "nvidia.com/gpu.count", "%" PRIu32, f->count);
	add(w, "nvidia.com/gpu.replicas", "%" PRIu32, f->replicas);
	add(w, "nvidia.com/gpu.sharing-strategy", "%s",
	    !shared  ? "none"
	    : f->mps ? "mps"
		     : "time-slicing");
	/* A GPU that has the host's memory reports none. */
	if (f->total_bytes)
		add(w, "nvidia.com/gpu.memory", "%" PRIu64, f->total_bytes >> 20);
}

/* The labels of a kind of parts, by its resource: "nvidia.com/mig-1g.10gb.count". */
static void add_of(const struct writer *w, const struct features_kind *kind, const char *what,
		   uint64_t value)
{
	char key[96];

	snprintf(key, sizeof(key), "nvidia.com/%s.%s", kind->resource, what);
	add(w, key, "%" PRIu64, value);
}

static void add_word(const struct writer *w, const struct features_kind *kind, const char *what,
		     const char *value)
{
	char key[96];

	snprintf(key, sizeof(key), "nvidia.com/%s.%s", kind->resource, what);
	add(w, key, "%s", value);
}

static void add_kind(const struct writer *w, const struct features *f,
		     const struct features_kind *kind)
{
	const struct gpu_part *part = kind->part;
	bool shared = kind->replicas > 1;
	char product[192], *plus;

	snprintf(product, sizeof(product), "%s-MIG-%s%s", f->model, kind->profile,
		 shared && !kind->renamed ? "-SHARED" : "");
	/* As in the resource's name. */
	plus = strrchr(product, '+');
	if (plus)
		*plus = '.';
	add_word(w, kind, "product", product);
	add_of(w, kind, "count", kind->count);
	add_of(w, kind, "replicas", kind->replicas);
	add_word(w, kind, "sharing-strategy", shared ? "time-slicing" : "none");
	add_of(w, kind, "memory", part->memory_mib);
	add_of(w, kind, "multiprocessors", part->multiprocessors);
	add_of(w, kind, "slices.gi", part->gpu_slices);
	add_of(w, kind, "slices.ci", part->compute_slices);
	add_of(w, kind, "engines.copy", part->copy_engines);
	add_of(w, kind, "engines.decoder", part->decoders);
	add_of(w, kind, "engines.encoder", part->encoders);
	add_of(w, kind, "engines.jpeg", part->jpegs);
	add_of(w, kind, "engines.ofa", part->ofas);
}

/* For a node whose division does not fit the strategy single, so that pods that want parts stay
 * away. */
static void add_invalid(const struct writer *w, const struct features *f)
{
	add(w, "nvidia.com/gpu.product", "%s-MIG-INVALID", f->model);
	add(w, "nvidia.com/gpu.count", "0");
	add(w, "nvidia.com/gpu.replicas", "0");
	add(w, "nvidia.com/gpu.sharing-strategy", "%s", "");
	add(w, "nvidia.com/gpu.memory", "0");
}

static void add_resources(const struct writer *w, const struct features *f)
{
	bool single = f->strategy && strcmp(f->strategy, "single") == 0,
	     invalid = single && f->invalid;

	if (f->strategy)
		add(w, "nvidia.com/mig.strategy", "%s", f->strategy);
	if (invalid)
		add_invalid(w, f);
	else if (!single || !f->kinds)
		add_gpu(w, f);
	add_architecture(w, f);
	for (uint32_t i = 0; !invalid && i < f->kinds; i++)
		add_kind(w, f, &f->kind[i]);
}

static const char *mode_of(const char *pci_class)
{
	if (strcmp(pci_class, "0x030000") == 0)
		return "graphics";
	return strcmp(pci_class, "0x030200") == 0 ? "compute" : "unknown";
}

static void add_vgpu(const struct writer *w, const struct features_vgpu *vgpu)
{
	if (!vgpu)
		return;
	add(w, "nvidia.com/vgpu.present", "%s", vgpu->present ? "true" : "false");
	if (*vgpu->driver)
		add(w, "nvidia.com/vgpu.host-driver-version", "%s", vgpu->driver);
	if (*vgpu->branch)
		add(w, "nvidia.com/vgpu.host-driver-branch", "%s", vgpu->branch);
}

void features_each(const struct features *features,
		   void (*each)(void *owner, const char *key, const char *value), void *owner)
{
	const struct writer w = {each, owner};

	if (features->timestamp)
		add(&w, "nvidia.com/gfd.timestamp", "%" PRIu64, features->timestamp);
	add(&w, "nvidia.com/gpu.machine", "%s", features->machine ? features->machine : "unknown");
	add_driver(&w, features);
	add_cuda(&w, features);
	add(&w, "nvidia.com/mig.capable", "%s", features->is_divisible ? "true" : "false");
	add(&w, "nvidia.com/mps.capable", "%s", features->mps ? "true" : "false");
	add(&w, "nvidia.com/gpu.mode", "%s", mode_of(features->pci_class));
	add_resources(&w, features);
	if (features->clique && *features->clique)
		add(&w, "nvidia.com/gpu.clique", "%s", features->clique);
	add_vgpu(&w, features->vgpu);
}
