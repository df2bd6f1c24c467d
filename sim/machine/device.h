/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/machine/device.h
 * A device's book and description: how much memory it has and which process holds it, its name,
 * its attributes, its errors. A device is the number that cuDeviceGet() deals in.
 *
 * This is bookkeeping only: the processes have the bytes themselves (space.h). Capacity is shared
 * by all processes of the node; a process that dies gives everything back. Used bytes of all
 * processes never exceed the capacity. Thread-safe; needs segment_join().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "sim/machine/device_id.h"
#include "sim/machine/settings.h"

enum {
	DEVICE_FULL = 1, /* the device has no room, dead processes' memory counted in */
	DEVICE_LOST,	 /* fallen off the bus */
	DEVICE_UNKNOWN,	 /* no such attribute */
};

int device_count(void);
const struct settings_device *device_shape(int device);

/*
 * CUDA_VISIBLE_DEVICES: from now on this library's devices are those of the list, in its order:
 * numbers, or UUIDs or their beginnings. What names no device ends the list. -ENOTUNIQ: a device is
 * named twice, and all are shown. NULL: all. libcuda calls it before anything else of it runs; NVML
 * sees all devices always.
 *
 * A GPU in MIG mode stands for its first part. A process has one part at most, the first of the
 * list, and no whole GPU beside it.
 */
must_check int device_show(const char *list);

/* The device's place on the node, whatever this process sees of it: a GPU's number, or a part's
 * (parts.h). */
uint32_t device_place(int device);

/* Takes memory for the calling process, for which managed memory is pushed out. DEVICE_FULL,
 * DEVICE_LOST, or -ENODEV without a slot. */
must_check int device_take(int device, uint64_t bytes);
void device_give(int device, uint64_t bytes);

/*
 * Managed memory shares the capacity, but any process that needs room pushes it out: the process
 * that used its own the longest ago loses first, the caller itself last. *ret_own_bytes: so many of
 * the caller's own must be released; the call has already taken them off its book. The others find
 * out by device_pushed_out().
 */
must_check int device_take_managed(int device, uint64_t bytes, uint64_t *ret_own_bytes);
void device_give_managed(int device, uint64_t bytes);

/* Returns how many of the caller's managed bytes others have pushed out since the last call: that
 * many of its least recently used pages are no longer resident. They are off the book already. */
uint64_t device_pushed_out(int device);

/* Managed memory of the caller is being used now. */
void device_touch_managed(int device);

/* A context of the calling process was made or ended; its memory is device_take()n as usual. */
void device_count_context(int device, int delta);

/* As cuMemGetInfo(): reaps first. */
void device_memory(int device, uint64_t *ret_free_bytes, uint64_t *ret_total_bytes);

/* The bytes that a process holds; 0 for a dead one. */
uint64_t device_used_by(int device, uint32_t process);

void device_uuid(int device, uint8_t ret_uuid[16]);
void device_gpu_uuid(int device, uint8_t ret_uuid[16]); /* of the GPU that a part is of */
/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", of a part "MIG-..." */
void device_uuid_text(int device, char ret_text[41]);
void device_pci_text(int device, char ret_text[16]); /* "0000:17:00.0" */
uint32_t device_pci_bus(int device);		     /* its other PCI numbers are 0 */
/* Number of the device with that UUID, or -1. */
int device_by_uuid(const uint8_t uuid[16]);

/* A CUdevice_attribute by its number (attributes.def). DEVICE_UNKNOWN for one without a row. */
must_check int device_attribute(int device, int attribute, int *ret_value);

/* Can kernels and copies of one device reach the other's memory? */
bool device_peer(int device, int other);

/* Costs of the settings for this device, to be spent or modelled. */
uint64_t device_clear_ns(uint64_t bytes);
uint64_t device_pin_ns(uint64_t bytes);
uint64_t device_fault_ns(uint64_t bytes);			    /* one batch of managed pages */
uint64_t device_bandwidth_ns(int device, uint64_t bytes);	    /* kernels, at device rate */
uint64_t device_instructions_ns(int device, uint64_t instructions); /* per thread, summed */

/* The device's books, which all processes share. */
struct segment_device;
struct segment_device *device_book(int device);

/* Errors, as seen by NVML: an event to waiting programs, and the counters. */
void device_xid(int device, uint64_t xid);
void device_ecc_error(int device, bool corrected);
void device_lose(int device);
bool device_is_lost(int device);
/* Is it a part of a GPU that has been destroyed since it was chosen? */
bool device_is_gone(int device);
