/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes what a container needs so that the guest replaces the driver: a CDI device (a file that
 * the container runtime reads), or environment, mounts and device nodes for runtimes without CDI.
 * It examines the driver's files, and writes only CDI files.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"
#include "wire/wire.h"

enum {
	INJECT_EDITS_MAX = 256,
	INJECT_ENV_MAX = 48,
	INJECT_SOCKET_FOLDER_MAX = 256,
};

struct inject_mount {
	char *from, *to; /* on the host; in the container */
	bool writable;
};

struct inject_node {
	char *from, *to; /* device nodes: on the host, in the container ("/dev/nvidia0") */
};

struct inject_env {
	char *name, *value;
};

/* The edits that all containers of a device's tenants share. */
struct inject_edits {
	uint32_t mounts, nodes, envs;
	struct inject_mount mount[INJECT_EDITS_MAX];
	struct inject_node node[INJECT_EDITS_MAX];
	struct inject_env env[INJECT_ENV_MAX];
	char *hook;    /* on the host: the createContainer hook; NULL: without one */
	char *preload; /* on the host: an ld.so.preload that names the guest; NULL: none */
};

struct inject_machine {
	const char *driver_root; /* the path under which this process sees the host's driver, "/" */
	const char *driver_folder;    /* its libraries, below that; NULL: search for them */
	const char *host_driver_root; /* the host's path of driver_root */
	const char *guest;	/* our installation's libraries as this process sees them, with one
				   folder per export set; NULL: the driver's own, and no guest */
	const char *host_guest; /* that folder's path on the host */
	const char *hook;	/* the path of mete-hook on the host */
	bool mounts_driver;	/* libcuda and libnvidia-ml, too */
};

/* A driver's libcuda and libnvidia-ml, as meted hands them to guests; -1: missing. */
struct inject_handout {
	int fd[WIRE_LIBRARIES]; /* owned; O_PATH, on mounts that are not writable */
};

void inject_handout_done(struct inject_handout *handout);
static inline void inject_handout_done_owned(struct inject_handout *handout)
{
	inject_handout_done(handout);
}

/*
 * Finds the driver's files and the guest's export set for its version. -ENOENT: there is no driver.
 * To get the version it loads the driver's libcuda.so.1, and keeps it loaded because drivers do not
 * unload safely; it initialises nothing. The device nodes are those that all containers need. The
 * nodes of a GPU, and MIG's capabilities in /dev/nvidia-caps, which give access to an instance,
 * belong to the slot.
 *
 * Driver files that reach a GPU without the CUDA driver API (OpenCL, Vulkan, OpenGL) are omitted,
 * because their memory would not be counted. libcuda and libnvidia-ml are omitted if they could be
 * opened for *ret_handout (NULL: they are not opened): guests get them from meted, and no path in a
 * container leads to them. They are mounted like the rest if `mounts_driver` is set, or if the
 * kernel cannot make a mount read-only for us (fd[WIRE_LIBRARY_CUDA] is -1 then).
 *
 * If the driver is the simulated one, a container also gets this process's METE_SIM_* settings and
 * the simulated node's folder, which must have the same path on the host.
 */
must_check int inject_look(const struct inject_machine *machine, struct inject_handout *ret_handout,
			   struct inject_edits **ret_edits, struct fault *why);
void inject_free(struct inject_edits *edits);
OWNED_POINTER(struct inject_edits, inject_free)

/* One of several CDI devices in a file: its edits beside the common ones. */
struct inject_part {
	const struct inject_node *nodes; /* texts are borrowed */
	uint32_t node_count;
};

/* A container's CDI device: `kind`=`name`, in its own file. `folder`: that of the tenant's
 * socket, on the host. `nodes`: those of its devices, in addition to those that all containers
 * need. */
struct inject_slot {
	const char *kind, *name; /* "mete.dev/slot", "a1b2c3" */
	const char *folder;
	const struct inject_node *nodes; /* texts are borrowed */
	uint32_t node_count;
	const char *visible; /* CUDA_VISIBLE_DEVICES, for devices without files; NULL: not set */
	/* A container may be given any of them, or all: `kind`=`name`-0, `name`-1 ... Each has
	 * `claim` in its environment, because CDI wants every device to do something. NULL: there
	 * is one device. */
	const struct inject_part *parts;
	uint32_t part_count;
	const char *claim;
};

/*
 * For runtimes without CDI, which cannot be told to run a hook: the edits of one container, with
 * its tenant's folder and its devices. The guest is in the usual folders of glibc's linker, and
 * every program preloads it. -ENOENT: the file for preloading is missing.
 *
 * The hook covers these cases, and this cannot: programs that open libcuda.so or libnvidia-ml.so.1
 * by a path of their own, or find them through LD_LIBRARY_PATH, RPATH or the linker's cache
 * elsewhere (a preloaded guest answers to the name libcuda.so.1 alone), as in images with NVIDIA's
 * compat folders; images of musl, whose linker knows no ld.so.preload; other versions of the
 * driver's own files in an image; an /etc/ld.so.preload of the image's, which is hidden; roots of
 * nothing but static programs get folders they did not have. LD_LIBRARY_PATH would be no help:
 * programs and `env -i` replace it.
 */
must_check int inject_without_cdi(const struct inject_edits *edits, const struct inject_slot *slot,
				  struct inject_edits **ret_edits, struct fault *why);

/* Written to a temporary file and renamed, mode 0644; CDI version 0.5.0, which all runtimes
 * accept. -EINVAL: kind or name are invalid in CDI. */
must_check int inject_write_cdi(const char *cdi_folder, const struct inject_edits *edits,
				const struct inject_slot *slot, struct fault *why);
/* A GPU as it is, or "all" for device files without a GPU: a CDI device of its nodes. */
struct inject_plain {
	const char *name;
	const struct inject_node *nodes; /* texts are borrowed; a device without any is valid */
	uint32_t node_count;
};
/* Writes the file of a kind ("k8s.device-plugin.nvidia.com/gpu") with these devices. Their
 * common edits are `edits` (NULL: none). The hook in these is NVIDIA's, which updates the
 * linker's cache. */
must_check int inject_write_plain(const char *cdi_folder, const char *kind,
				  const struct inject_edits *edits,
				  const struct inject_plain *devices, uint32_t count,
				  struct fault *why);
bool inject_has_cdi(const char *cdi_folder, const char *kind, const char *name);
/* A missing file is not an error. */
must_check int inject_remove_cdi(const char *cdi_folder, const char *kind, const char *name,
				 struct fault *why);
/* "mete.dev-slot_a1b2c3.json", so that files of slots that no longer exist can be found. -EINVAL;
 * or -ENAMETOOLONG. */
must_check int inject_cdi_file(const char *kind, const char *name, char *ret_name, size_t size);
