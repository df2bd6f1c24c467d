/* SPDX-License-Identifier: Apache-2.0 */
#include "node/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "cuda/nvml_prototypes.h"

enum { SAMPLES_TRIES = 4 };

/* The library's functions, and whether they are required. */
#define NVML_CALLS(CALL)                                                                           \
	CALL(nvmlInit_v2, 1)                                                                       \
	CALL(nvmlShutdown, 1)                                                                      \
	CALL(nvmlErrorString, 1)                                                                   \
	CALL(nvmlDeviceGetCount_v2, 1)                                                             \
	CALL(nvmlDeviceGetHandleByIndex_v2, 1)                                                     \
	CALL(nvmlDeviceGetUUID, 1)                                                                 \
	CALL(nvmlDeviceGetName, 1)                                                                 \
	CALL(nvmlDeviceGetMemoryInfo, 1)                                                           \
	CALL(nvmlDeviceGetMinorNumber, 0)                                                          \
	CALL(nvmlDeviceGetMemoryInfo_v2, 0)                                                        \
	CALL(nvmlDeviceGetComputeRunningProcesses_v3, 0)                                           \
	CALL(nvmlDeviceGetComputeRunningProcesses_v2, 0)                                           \
	CALL(nvmlDeviceGetCudaComputeCapability, 0)                                                \
	CALL(nvmlSystemGetDriverVersion, 0)                                                        \
	CALL(nvmlSystemGetCudaDriverVersion_v2, 0)                                                 \
	CALL(nvmlDeviceGetPciInfo_v3, 0)                                                           \
	CALL(nvmlDeviceGetMigMode, 0)                                                              \
	CALL(nvmlDeviceGetMaxMigDeviceCount, 0)                                                    \
	CALL(nvmlDeviceGetMigDeviceHandleByIndex, 0)                                               \
	CALL(nvmlDeviceGetGpuInstanceId, 0)                                                        \
	CALL(nvmlDeviceGetComputeInstanceId, 0)                                                    \
	CALL(nvmlDeviceGetProcessUtilization, 0)                                                   \
	CALL(nvmlEventSetCreate, 0)                                                                \
	CALL(nvmlEventSetFree, 0)                                                                  \
	CALL(nvmlEventSetWait_v2, 0)                                                               \
	CALL(nvmlDeviceGetSupportedEventTypes, 0)                                                  \
	CALL(nvmlDeviceRegisterEvents, 0)

struct nvml {
	void *library;
	uint32_t count, room;
	struct nvml_device *devices;
	nvmlDevice_t *handles;
	nvmlDevice_t *gpus;    /* the GPU that each device is, or is a part of */
	nvmlEventSet_t events; /* NULL: nobody has asked for them */
	char driver[80];
	int cuda; /* 0: not reported */
#define CALL(name, needed) nvml_fn_##name *name;
	NVML_CALLS(CALL)
#undef CALL
};

OWNED_POINTER(struct nvml, nvml_close)

void nvml_close(struct nvml *nvml)
{
	if (!nvml)
		return;
	if (nvml->events)
		nvml->nvmlEventSetFree(nvml->events);
	if (nvml->handles)
		nvml->nvmlShutdown();
	/* The library stays loaded: its threads may still run its code. */
	free(nvml->handles);
	free(nvml->gpus);
	free(nvml->devices);
	free(nvml);
}

static int resolve(struct nvml *nvml, struct fault *why)
{
#define CALL(name, needed)                                                                         \
	nvml->name = (nvml_fn_##name *)dlsym(nvml->library, #name);                                \
	if (needed && !nvml->name) {                                                               \
		fault_set(why, -ENOSYS,                                                            \
			  "it has no " #name ": the driver is too old (450 "                       \
			  "or newer is needed)");                                                  \
		return -ENOSYS;                                                                    \
	}
	NVML_CALLS(CALL)
#undef CALL
	return 0;
}

static int says(const struct nvml *nvml, nvmlReturn_t r, const char *what, struct fault *why)
{
	if (r == NVML_SUCCESS)
		return 0;
	return fault_set(why, -EIO, "%s: %s", what, nvml->nvmlErrorString(r));
}

int nvml_parse_uuid(const char *text, uint8_t ret_uuid[16])
{
	uint8_t uuid[16] = {0};
	int digits = 0;

	if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0)
		return -EINVAL;
	for (text += 4; *text; text++) {
		int value = text_hex(*text);

		if (*text == '-')
			continue;
		if (value < 0 || digits == 32)
			return -EINVAL;
		uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | value);
		digits++;
	}
	if (digits != 32)
		return -EINVAL;
	memcpy(ret_uuid, uuid, sizeof(uuid));
	return 0;
}

static bool make_room(struct nvml *nvml)
{
	uint32_t room = nvml->room ? 2 * nvml->room : 16;
	void *devices, *handles, *gpus;

	if (nvml->count < nvml->room)
		return true;
	devices = realloc(nvml->devices, room * sizeof(*nvml->devices));
	nvml->devices = devices ? devices : nvml->devices;
	handles = realloc(nvml->handles, room * sizeof(*nvml->handles));
	nvml->handles = handles ? handles : nvml->handles;
	gpus = realloc(nvml->gpus, room * sizeof(*nvml->gpus));
	nvml->gpus = gpus ? gpus : nvml->gpus;
	if (!devices || !handles || !gpus)
		return false;
	nvml->room = room;
	return true;
}

/* Reads the next device: `handle` is that GPU or a part of it. */
static int read_device(struct nvml *nvml, nvmlDevice_t handle, nvmlDevice_t gpu, struct fault *why)
{
	struct nvml_device *device;
	nvmlMemory_t memory;
	nvmlMemory_v2_t more = {.version = NVML_STRUCT_VERSION(Memory, 2)};
	unsigned int now, later, minor;
	nvmlPciInfo_t pci;
	int r;

	if (!make_room(nvml) || !nvml->devices || !nvml->gpus)
		return fault_set(why, -ENOMEM, "out of memory");
	device = &nvml->devices[nvml->count];
	*device = (struct nvml_device){.minor = -1, .gpu_instance = -1, .compute_instance = -1};
	nvml->handles[nvml->count] = handle;
	nvml->gpus[nvml->count] = gpu;
	r = says(nvml,
		 nvml->nvmlDeviceGetUUID(handle, device->uuid_text, sizeof(device->uuid_text)),
		 "its UUID", why);
	if (r < 0)
		return r;
	if (nvml_parse_uuid(device->uuid_text, device->uuid) < 0)
		return fault_set(why, -EINVAL, "'%.40s' is not a UUID", device->uuid_text);
	r = says(nvml, nvml->nvmlDeviceGetName(handle, device->model, sizeof(device->model)),
		 "its name", why);
	if (r < 0)
		return r;
	r = says(nvml, nvml->nvmlDeviceGetMemoryInfo(handle, &memory), "its memory", why);
	if (r < 0)
		return r;
	device->total_bytes = memory.total;
	if (nvml->nvmlDeviceGetMinorNumber &&
	    nvml->nvmlDeviceGetMinorNumber(gpu, &minor) == NVML_SUCCESS)
		device->minor = (int)minor;
	if (nvml->nvmlDeviceGetMemoryInfo_v2 &&
	    nvml->nvmlDeviceGetMemoryInfo_v2(handle, &more) == NVML_SUCCESS)
		device->reserved_bytes = more.reserved;
	if (nvml->nvmlDeviceGetPciInfo_v3 &&
	    nvml->nvmlDeviceGetPciInfo_v3(gpu, &pci) == NVML_SUCCESS)
		snprintf(device->pci, sizeof(device->pci), "%.31s", pci.busId);
	if (!nvml->nvmlDeviceGetCudaComputeCapability ||
	    nvml->nvmlDeviceGetCudaComputeCapability(gpu, &device->cc_major, &device->cc_minor) !=
		    NVML_SUCCESS)
		device->cc_major = 0;
	device->is_divisible = nvml->nvmlDeviceGetMigMode &&
			       nvml->nvmlDeviceGetMigMode(gpu, &now, &later) == NVML_SUCCESS;
	nvml->count++;
	return 0;
}

static int read_part(struct nvml *nvml, nvmlDevice_t part, nvmlDevice_t gpu, unsigned int index,
		     struct fault *why)
{
	unsigned int gpu_instance = 0, compute_instance = 0;
	int r = says(nvml, nvml->nvmlDeviceGetGpuInstanceId(part, &gpu_instance),
		     "its GPU instance", why);

	if (r == 0)
		r = says(nvml, nvml->nvmlDeviceGetComputeInstanceId(part, &compute_instance),
			 "its compute instance", why);
	if (r == 0)
		r = read_device(nvml, part, gpu, why);
	if (r < 0)
		return r;
	nvml->devices[nvml->count - 1].part_index = index;
	nvml->devices[nvml->count - 1].gpu_instance = (int)gpu_instance;
	nvml->devices[nvml->count - 1].compute_instance = (int)compute_instance;
	return 0;
}

static bool is_divided(const struct nvml *nvml, nvmlDevice_t gpu)
{
	unsigned int now = 0, later;

	return nvml->nvmlDeviceGetMigMode && nvml->nvmlDeviceGetMaxMigDeviceCount &&
	       nvml->nvmlDeviceGetMigDeviceHandleByIndex && nvml->nvmlDeviceGetGpuInstanceId &&
	       nvml->nvmlDeviceGetComputeInstanceId &&
	       nvml->nvmlDeviceGetMigMode(gpu, &now, &later) == NVML_SUCCESS &&
	       now == NVML_DEVICE_MIG_ENABLE;
}

/* Returns false if there is no part with this index. There may be gaps. */
static bool find_part(const struct nvml *nvml, nvmlDevice_t gpu, unsigned int index,
		      nvmlDevice_t *ret_part)
{
	return nvml->nvmlDeviceGetMigDeviceHandleByIndex(gpu, index, ret_part) == NVML_SUCCESS;
}

/* Reads the parts into which MIG has divided a GPU; there may be none yet. */
static int read_parts(struct nvml *nvml, nvmlDevice_t gpu, struct fault *why)
{
	unsigned int most = 0;
	int r = says(nvml, nvml->nvmlDeviceGetMaxMigDeviceCount(gpu, &most),
		     "how many parts MIG may make of it", why);

	for (unsigned int i = 0; i < most && r == 0; i++) {
		nvmlDevice_t part;

		if (!find_part(nvml, gpu, i, &part))
			continue;
		r = read_part(nvml, part, gpu, i, why);
		if (r < 0)
			fault_within(why, "part %u of MIG", i);
	}
	return r;
}

static int read_gpu(struct nvml *nvml, unsigned int index, struct fault *why)
{
	uint32_t first = nvml->count;
	nvmlDevice_t gpu;
	int r = says(nvml, nvml->nvmlDeviceGetHandleByIndex_v2(index, &gpu), "its handle", why);

	if (r == 0)
		r = is_divided(nvml, gpu) ? read_parts(nvml, gpu, why)
					  : read_device(nvml, gpu, gpu, why);
	for (uint32_t i = first; r == 0 && i < nvml->count; i++)
		nvml->devices[i].gpu_index = index;
	return r;
}

static int read_devices(struct nvml *nvml, struct fault *why)
{
	unsigned int count = 0;
	int r = says(nvml, nvml->nvmlInit_v2(), "nvmlInit", why);

	if (r < 0)
		return r;
	nvml->handles = calloc(1, sizeof(*nvml->handles)); /* from here on, it must be shut down */
	if (!nvml->nvmlSystemGetDriverVersion ||
	    nvml->nvmlSystemGetDriverVersion(nvml->driver, sizeof(nvml->driver)) != NVML_SUCCESS)
		*nvml->driver = '\0';
	if (!nvml->nvmlSystemGetCudaDriverVersion_v2 ||
	    nvml->nvmlSystemGetCudaDriverVersion_v2(&nvml->cuda) != NVML_SUCCESS)
		nvml->cuda = 0;
	r = says(nvml, nvml->nvmlDeviceGetCount_v2(&count), "the number of devices", why);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < count; i++) {
		r = read_gpu(nvml, i, why);
		if (r < 0) {
			fault_within(why, "device %u", i);
			return r;
		}
	}
	return 0;
}

int nvml_open(const char *folder, struct nvml **ret_nvml, struct fault *why)
{
	owned(nvml_close) struct nvml *nvml = calloc(1, sizeof(*nvml));
	char path[PATH_MAX] = "libnvidia-ml.so.1";
	int r;

	if (!nvml)
		return fault_set(why, -ENOMEM, "out of memory");
	if (folder && snprintf(path, sizeof(path), "%s/libnvidia-ml.so.1", folder) >= PATH_MAX)
		return fault_set(why, -ENAMETOOLONG, "%.40s...: the path is too long", folder);
	nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library)
		return fault_set(why, -ENOENT, "NVIDIA's management library cannot be opened: %s",
				 dlerror());
	r = resolve(nvml, why);
	if (r == 0)
		r = read_devices(nvml, why);
	if (r < 0) {
		fault_within(why, "%s", path);
		return r;
	}
	*ret_nvml = take(nvml);
	return 0;
}

uint32_t nvml_count(const struct nvml *nvml)
{
	return nvml->count;
}

const struct nvml_device *nvml_device(const struct nvml *nvml, uint32_t index)
{
	return &nvml->devices[index];
}

const char *nvml_driver(const struct nvml *nvml)
{
	return nvml->driver;
}

int nvml_cuda(const struct nvml *nvml)
{
	return nvml->cuda;
}

int nvml_processes(struct nvml *nvml, uint32_t index, struct nvml_process *out, uint32_t room,
		   uint32_t *ret_count)
{
	nvml_fn_nvmlDeviceGetComputeRunningProcesses_v3 *list =
		nvml->nvmlDeviceGetComputeRunningProcesses_v3
			? nvml->nvmlDeviceGetComputeRunningProcesses_v3
			: nvml->nvmlDeviceGetComputeRunningProcesses_v2;
	/* Not cleared: of the room for thousands only what the driver writes is touched. */
	owned(free) nvmlProcessInfo_t *infos = reallocarray(NULL, room, sizeof(*infos));
	unsigned int count = room;
	uint32_t n = 0;
	nvmlReturn_t r;

	if (!infos)
		return -ENOMEM;
	if (!list)
		return -EIO;
	r = list(nvml->handles[index], &count, infos);
	if (r == NVML_ERROR_INSUFFICIENT_SIZE)
		return -ENOSPC;
	if (r != NVML_SUCCESS || count > room)
		return -EIO;
	for (unsigned int i = 0; i < count; i++) {
		if (infos[i].usedGpuMemory == (unsigned long long)NVML_VALUE_NOT_AVAILABLE)
			continue;
		/* One row per process and MIG instance, or per context: they are one process. */
		out[n++] = (struct nvml_process){.pid = infos[i].pid,
						 .used_bytes = infos[i].usedGpuMemory};
	}
	*ret_count = n;
	return 0;
}

uint64_t nvml_used(struct nvml *nvml, uint32_t index)
{
	nvmlMemory_v2_t memory = {.version = NVML_STRUCT_VERSION(Memory, 2)};

	if (!nvml->nvmlDeviceGetMemoryInfo_v2 ||
	    nvml->nvmlDeviceGetMemoryInfo_v2(nvml->handles[index], &memory) != NVML_SUCCESS)
		return 0;
	return memory.used;
}

static int by_pid(const void *a, const void *b)
{
	const struct nvml_busy *one = a, *other = b;

	return (one->pid > other->pid) - (one->pid < other->pid);
}

/* The driver wants room for all that it may keep, whatever it then writes: 580 wants 72 rows, and
 * has written 1. How much it wants is only asked where `room` does not suffice. */
static nvmlReturn_t read_samples(const struct nvml *nvml, uint32_t index, uint64_t since_us,
				 uint32_t room, nvmlProcessUtilizationSample_t **samples,
				 unsigned int *ret_count)
{
	nvmlReturn_t r = NVML_ERROR_INSUFFICIENT_SIZE;

	for (int i = 0; i < SAMPLES_TRIES && room <= NVML_SAMPLES_MOST; i++) {
		unsigned int wanted = 0;
		void *more = reallocarray(*samples, room, sizeof(**samples));

		if (!more)
			return NVML_ERROR_MEMORY;
		*samples = more;
		*ret_count = room;
		r = nvml->nvmlDeviceGetProcessUtilization(nvml->handles[index], *samples, ret_count,
							  since_us);
		if (r != NVML_ERROR_INSUFFICIENT_SIZE)
			return r == NVML_SUCCESS && *ret_count > room ? NVML_ERROR_UNKNOWN : r;
		nvml->nvmlDeviceGetProcessUtilization(nvml->handles[index], NULL, &wanted,
						      since_us);
		room = wanted > room ? wanted + wanted / 8 : 2 * room; /* it may grow */
	}
	return r;
}

int nvml_busy(struct nvml *nvml, uint32_t index, uint64_t since_us, struct nvml_busy *out,
	      uint32_t room, uint32_t *ret_count)
{
	owned(free) nvmlProcessUtilizationSample_t *samples = NULL;
	unsigned int count = 0;
	nvmlReturn_t r;

	if (!nvml->nvmlDeviceGetProcessUtilization)
		return -EIO;
	r = read_samples(nvml, index, since_us, room, &samples, &count);
	if (r == NVML_ERROR_MEMORY)
		return -ENOMEM;
	if (r == NVML_ERROR_NOT_FOUND)
		count = 0; /* no process had samples */
	else if (r == NVML_ERROR_INSUFFICIENT_SIZE || (r == NVML_SUCCESS && count > room))
		return -ENOSPC;
	else if (r != NVML_SUCCESS)
		return -EIO;
	for (unsigned int i = 0; i < count; i++)
		out[i] =
			(struct nvml_busy){samples[i].pid, samples[i].smUtil, samples[i].timeStamp};
	qsort(out, count, sizeof(*out), by_pid);
	*ret_count = count;
	return 0;
}

const struct nvml_busy *nvml_busy_of(const struct nvml_busy *rows, uint32_t count, uint32_t pid,
				     uint32_t *ret_count)
{
	uint32_t first = 0, end = count, of_pid = 0;

	while (first < end) {
		uint32_t middle = first + (end - first) / 2;

		if (rows[middle].pid < pid)
			first = middle + 1;
		else
			end = middle;
	}
	while (first + of_pid < count && rows[first + of_pid].pid == pid)
		of_pid++;
	*ret_count = of_pid;
	return rows + first;
}

/* Registers only supported kinds: one that the device does not support (ECC's, without ECC) would
 * make the driver refuse all. Even without events, whether a device answers is still checked. */
static void register_events(const struct nvml *nvml, nvmlDevice_t gpu)
{
	unsigned long long kinds = nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError;
	unsigned long long supported;

	if (nvml->nvmlDeviceGetSupportedEventTypes &&
	    nvml->nvmlDeviceGetSupportedEventTypes(gpu, &supported) == NVML_SUCCESS)
		kinds &= supported;
	if (kinds)
		nvml->nvmlDeviceRegisterEvents(gpu, kinds, nvml->events);
}

static int begin_events(struct nvml *nvml)
{

	if (nvml->events)
		return 0;
	if (!nvml->nvmlEventSetCreate || !nvml->nvmlEventSetFree || !nvml->nvmlEventSetWait_v2 ||
	    !nvml->nvmlDeviceRegisterEvents ||
	    nvml->nvmlEventSetCreate(&nvml->events) != NVML_SUCCESS)
		return -EIO;
	for (uint32_t i = 0; i < nvml->count; i++)
		if (i == 0 || nvml->gpus[i] != nvml->gpus[i - 1])
			register_events(nvml, nvml->gpus[i]);
	return 0;
}

/* An event of a GPU concerns all its parts, unless the driver names one. */
static bool befalls(const struct nvml *nvml, const nvmlEventData_t *data, uint32_t index)
{
	const struct nvml_device *device = &nvml->devices[index];

	if (nvml->gpus[index] != data->device && nvml->handles[index] != data->device)
		return false;
	return device->gpu_instance < 0 || data->gpuInstanceId == UINT32_MAX ||
	       (data->gpuInstanceId == (unsigned int)device->gpu_instance &&
		(data->computeInstanceId == UINT32_MAX ||
		 data->computeInstanceId == (unsigned int)device->compute_instance));
}

int nvml_events(struct nvml *nvml, struct nvml_event *out, uint32_t room, uint32_t *ret_count)
{
	uint32_t n = 0;
	int r = begin_events(nvml);

	while (r == 0 && n < room) {
		nvmlEventData_t data;
		nvmlReturn_t result = nvml->nvmlEventSetWait_v2(nvml->events, &data, 0);

		if (result != NVML_SUCCESS) {
			/* NVML_ERROR_TIMEOUT: there are no more. A lost device may end the others'
			 * events, too; that it does not answer is detected elsewhere. */
			break;
		}
		for (uint32_t i = 0; i < nvml->count && n < room; i++)
			if (befalls(nvml, &data, i))
				out[n++] = (struct nvml_event){
					.index = i,
					.news = data.eventType == nvmlEventTypeXidCriticalError
							? NVML_NEWS_XID
							: NVML_NEWS_ECC,
					.xid = data.eventData,
				};
	}
	*ret_count = n;
	return r;
}

/* Is `part` still the device? Its place in the GPU may have been given to another part. */
static bool is_part(const struct nvml *nvml, nvmlDevice_t part, const struct nvml_device *device)
{
	unsigned int gpu_instance = 0, compute_instance = 0;
	char uuid[sizeof(device->uuid_text)];

	return nvml->nvmlDeviceGetUUID(part, uuid, sizeof(uuid)) == NVML_SUCCESS &&
	       strcmp(uuid, device->uuid_text) == 0 &&
	       nvml->nvmlDeviceGetGpuInstanceId(part, &gpu_instance) == NVML_SUCCESS &&
	       nvml->nvmlDeviceGetComputeInstanceId(part, &compute_instance) == NVML_SUCCESS &&
	       (int)gpu_instance == device->gpu_instance &&
	       (int)compute_instance == device->compute_instance;
}

/* A part that was destroyed and recreated has the same UUID, but another handle. */
static bool find_again(struct nvml *nvml, uint32_t index)
{
	nvmlDevice_t gpu = nvml->gpus[index], part;
	unsigned int most = 0;

	if (!is_divided(nvml, gpu) ||
	    nvml->nvmlDeviceGetMaxMigDeviceCount(gpu, &most) != NVML_SUCCESS)
		return false;
	for (unsigned int i = 0; i < most; i++) {
		if (!find_part(nvml, gpu, i, &part) || !is_part(nvml, part, &nvml->devices[index]))
			continue;
		nvml->handles[index] = part;
		return true;
	}
	return false;
}

bool nvml_answers(struct nvml *nvml, uint32_t index)
{
	bool divided = nvml->devices[index].gpu_instance >= 0;
	nvmlMemory_t memory;

	/* An unknown MIG mode is no reason to remove a GPU. */
	if (divided ? !find_again(nvml, index) : is_divided(nvml, nvml->gpus[index]))
		return false;
	return nvml->nvmlDeviceGetMemoryInfo(nvml->handles[index], &memory) !=
	       NVML_ERROR_GPU_IS_LOST;
}
