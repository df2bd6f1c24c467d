/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of this machine, as NVIDIA's management library reports them. It is opened at run time:
 * meted starts and says so where there is no driver.
 *
 * nvml_processes() and nvml_busy() block and may take long: they belong on a worker. One call at a
 * time.
 */
#pragma once

#include "base/fault.h"

struct nvml;

struct nvml_device {
	uint8_t uuid[16];
	char uuid_text[80]; /* "GPU-..." */
	char model[64];
	uint64_t total_bytes;
	uint64_t reserved_bytes; /* taken by the driver itself; 0 where it does not say */
};

struct nvml_process {
	uint32_t pid;
	uint64_t used_bytes;
};

/* `folder`: of the real libnvidia-ml.so.1; NULL: where the loader finds it. */
must_check int nvml_open(const char *folder, struct nvml **ret_nvml, struct fault *why);
void nvml_close(struct nvml *nvml);

uint32_t nvml_count(const struct nvml *nvml);
const struct nvml_device *nvml_device(const struct nvml *nvml, uint32_t index);

/* Who uses the device, at most `room` processes; who has no figure is left out. -EIO: the driver
 * did not say; -ENOSPC: there are more. */
must_check int nvml_processes(struct nvml *nvml, uint32_t index, struct nvml_process *out,
			      uint32_t room, uint32_t *ret_count);

struct nvml_busy {
	uint32_t pid, percent; /* of the device's time that it had kernels on it */
};

/* What the driver sampled since that time (wall clock, microseconds), at most `room` rows: several
 * of a process are of different times. -EIO: the driver did not say; -ENOSPC: there are more. */
must_check int nvml_busy(struct nvml *nvml, uint32_t index, uint64_t since_us,
			 struct nvml_busy *out, uint32_t room, uint32_t *ret_count);

/* "GPU-00010203-0405-..." or "MIG-..." to its 16 bytes; -EINVAL. */
must_check int nvml_parse_uuid(const char *text, uint8_t ret_uuid[16]);
